"""The commands of ``python -m engine``, one per file. None imports pyspark before it needs it."""
