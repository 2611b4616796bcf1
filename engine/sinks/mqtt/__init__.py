"""``mqtt``: rows as messages of topics."""
