"""Wrong versions of what several roads have in common, which each of them has to catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.coordinator.epoch_runner import EpochRunner

COMMITTED_EARLY = "the sink commits before the offset log"
ASKS_NOTHING = "the table is not asked whether it has the epoch"


def commit_before_log() -> None:
    """A restart plans the epoch anew, and the sink has it already."""
    right = EpochRunner.log

    def log(
        self: Any,
        epoch: int,
        offsets: Any,
        messages: Sequence[Any],
        *given: Any,
        **named: Any,
    ) -> None:
        self._sink.commit(list(messages), epoch)
        right(self, epoch, offsets, messages, *given, **named)

    EpochRunner.log = log  # type: ignore[method-assign]


def asks_nothing(log: Any) -> None:
    """The sink commits an epoch that its table has already: neither a start nor a commit asks.

    :param log: a subclass of :class:`engine.sinks.lakes.table_log.TableLog`.
    """
    log.latest = lambda *_: None
    right = log._write

    def write(
        self: Any, context: Any, commit: Any, is_done: Any = None, *given: Any, **named: Any
    ) -> Any:
        return right(self, context, commit, lambda table: False, *given, **named)

    log._write = write
