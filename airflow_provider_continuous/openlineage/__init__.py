"""Lineage of queries, for Airflow's OpenLineage provider. Without it nothing here runs."""
