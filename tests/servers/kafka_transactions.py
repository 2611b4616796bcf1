"""Transactions of Kafka as its readers see them."""

from __future__ import annotations

from contextlib import closing

from engine.clients.kafka_transactions import KafkaTransactions
from tests.waiting import wait_until

_ENDING = frozenset({"PrepareCommit", "PrepareAbort"})
END_S = 60.0


def await_ended(bootstrap: str) -> None:
    """Until readers see how each transaction has ended that was told to end. The brokers answer
    before that, and who reads in between finds a partition's end in front of its rows. Those that
    are open stay so."""
    with closing(KafkaTransactions({"bootstrap.servers": bootstrap})) as transactions:

        def are_ended() -> bool:
            found = transactions.describe(transactions.ids(""))
            return not any(each.state in _ENDING for each in found.values())

        wait_until(are_ended, "transactions have ended", END_S)
