"""What the connectors of one outside system share: its client's settings and errors."""
