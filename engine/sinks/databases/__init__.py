"""What sinks of databases' tables have in common, whatever their client is."""
