"""What all sources of tables of a lake have in common."""
