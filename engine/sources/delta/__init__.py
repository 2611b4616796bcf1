"""Tables of Delta Lake as streams."""
