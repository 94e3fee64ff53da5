"""The client half: one person's value in, one private report out. No numerical library needed."""
