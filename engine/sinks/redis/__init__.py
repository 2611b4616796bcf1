"""``redis``: rows as entries of a stream, each epoch exactly once."""
