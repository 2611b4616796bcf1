"""Source ``continuous_iceberg``: tables of Apache Iceberg."""
