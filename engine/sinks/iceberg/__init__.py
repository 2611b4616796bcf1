"""``iceberg``: rows in a table of Apache Iceberg, exactly once."""
