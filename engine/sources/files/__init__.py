"""Spark's own file source: ``readStream.parquet(...)`` and its like."""
