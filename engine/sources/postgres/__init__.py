"""``postgres``: the changes of a table of PostgreSQL, behind what it had before them."""
