"""What is built from private means: variances and models."""
