"""What Airflow's connections of the usual types mean to connectors and to checkpoints' storage."""
