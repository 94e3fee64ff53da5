"""Many questions about one table under one budget: planned, charged, run and told together."""
