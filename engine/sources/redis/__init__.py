"""``redis``: the entries of streams, read from exact ids."""
