"""The road that every question takes, and the functions that ask one question each."""
