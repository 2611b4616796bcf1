"""A real Airflow on this machine, for demos, development and tests; no part of the package."""
