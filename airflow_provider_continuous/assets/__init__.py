"""Assets of continuous queries: their URIs, and what their events tell."""
