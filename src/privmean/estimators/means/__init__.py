"""Means of one column or several."""
