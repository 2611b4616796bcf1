"""Where a query runs: one file per way to start it."""
