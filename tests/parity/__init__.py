"""The oracle: every registered expression over generated columns, in Spark and here.

``python -m tests.parity`` runs long; ``test_parity.py`` runs a small part with a fixed seed.
"""
