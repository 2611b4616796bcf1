"""L5: roads from a source to a sink, through real servers."""
