"""The pieces of the flights demo: the query, the feeder, the comparison."""
