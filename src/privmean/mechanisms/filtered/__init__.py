"""The mean of people with a friend in common: who is kept, and what is released of them."""
