"""What all sinks that write tables of a lake have in common: data files whose names tell whose they
are, a log that is committed to once for an epoch, what is left behind, and what is taken back."""
