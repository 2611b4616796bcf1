"""Queries with state, in Spark and here."""
