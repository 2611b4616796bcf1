"""``postgres``: rows in a table of PostgreSQL, appended or by key, exactly once."""
