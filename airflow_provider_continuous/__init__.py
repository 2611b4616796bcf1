"""Airflow provider for continuous queries.

Imports nothing: Airflow loads this package while it reads its own configuration.
"""
