"""Sources whose driver finds what there is to read, and hands it out to tasks."""
