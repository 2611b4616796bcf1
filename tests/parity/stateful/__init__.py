"""Queries that keep state, here and in Spark's micro-batches, over the same steps of input."""
