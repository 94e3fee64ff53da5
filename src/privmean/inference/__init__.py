"""From released noisy sums to confidence intervals: post-processing only, no data."""
