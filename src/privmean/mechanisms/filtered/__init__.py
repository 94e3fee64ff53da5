"""The mean of persons with a friend in common: who is kept, and what is released of them."""
