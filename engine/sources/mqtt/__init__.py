"""``mqtt``: the messages of topics, acknowledged when they are committed."""
