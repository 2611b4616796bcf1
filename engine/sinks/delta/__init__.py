"""``delta``: rows in a table of Delta Lake, exactly once."""
