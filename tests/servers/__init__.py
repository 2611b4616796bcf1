"""Real servers for tests, each started on loopback and stopped by its own process id."""
