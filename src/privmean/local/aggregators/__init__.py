"""The server half: reports in, an estimate with an honest radius out. Uses NumPy and SciPy."""
