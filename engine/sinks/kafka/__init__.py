"""``kafka``: rows as records of topics, with Spark's columns; at least once, or exactly once."""
