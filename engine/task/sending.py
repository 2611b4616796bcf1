"""A task's writer where its rows go to other tasks: an epoch is written when all was sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from engine.exchange.alignment import EpochEnd
from engine.exchange.frames import Place
from engine.exchange.partitioning import Partitioner
from engine.exchange.sender import Sender
from engine.pipeline.stateful import Exchange
from engine.sinks.contract import TaskWriter
from engine.state.contract import EventClock
from engine.wire.messages import Address

_give_way: Final[Callable[[], None]] = getattr(os, "sched_yield", lambda: None)
"""A reader that is never idle would keep the tasks that it sends to waiting for its core until its
share of time is over: some milliseconds on a machine with fewer cores than tasks."""


class SendingWriter(TaskWriter):
    """Nothing of an epoch is prepared here: its rows are in the state, or the sink, of others.

    :param own: the task that sends.
    :param groups: how many key groups the query has.
    :param secret: of the run.
    """

    def __init__(
        self, own: Place, exchange: Exchange, groups: int, clock: EventClock, secret: bytes
    ) -> None:
        self._own, self._exchange, self._groups = own, exchange, groups
        self._clock, self._secret = clock, secret
        self._sender: Sender | None = None

    def connect(self, wiring: Mapping[int, Sequence[Address]]) -> None:
        """Reach the tasks that rows go to.

        :param wiring: where the tasks of each pipeline are.
        :raises TaskLostError: one cannot be reached.
        """
        exchange = self._exchange
        addresses = wiring[exchange.stage]
        self._sender = Sender(
            self._own,
            exchange.stage,
            addresses,
            self._secret,
            Partitioner(exchange.keys, len(addresses), self._groups),
        )

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        """See :class:`TaskWriter`.

        :raises TaskLostError: a task that rows go to is gone.
        """
        assert self._sender is not None
        filled = False
        for batch in batches:
            self._sender.send(batch)
            _give_way()
            filled = filled or batch.num_rows > 0
        clock = self._clock
        behind = clock.query_next_watermark_ms, clock.next_opened_ms
        self._sender.end(EpochEnd(epoch, clock.is_final, *behind, filled))

    def close(self) -> None:
        """Hang up; from any thread. A write that waits for a task that does not read fails."""
        if self._sender is not None:
            self._sender.close()
