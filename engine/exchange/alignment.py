"""Epochs at a task that gets rows from several others: none of a later epoch overtakes the end of
an earlier one. Pure.

Each sender sends batches and, between them, an :class:`EpochEnd` per epoch. Of a sender whose end
has arrived nothing more is taken, and nothing more need be received, before the ends of all others
have: then the epoch is *aligned*, and over. What had arrived behind an end waits for its epoch.

Source: Chandy and Lamport, "Distributed Snapshots", 1985; Flink's aligned checkpoints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from engine.errors import ProtocolError

Sender = TypeVar("Sender", bound=Hashable)
Batch = TypeVar("Batch")


@dataclass(frozen=True)
class EpochEnd:
    """What follows the last row of an epoch, in band.

    :param next_watermark_ms: the watermark of the next epoch; what it closes belongs to this one.
    :param next_opened_ms: when the next epoch has begun, by the driver's wall clock.
    :param filled: whether there were rows: from this sender to whomever; or, of an aligned epoch,
        from any of them. All tasks of a stage hear the same.
    """

    epoch: int
    final: bool
    next_watermark_ms: int
    next_opened_ms: int
    filled: bool = field(default=False, compare=False)


class Alignment(Generic[Sender, Batch]):
    """See the module.

    :param senders: all that there are, at least one.
    """

    def __init__(self, senders: Iterable[Sender]) -> None:
        self._waiting: dict[Sender, deque[Batch | EpochEnd]] = {each: deque() for each in senders}
        self._ended: set[Sender] = set()
        """Those of whom everything of the epoch was taken."""
        self._over: int | None = None
        """The epoch before the present one; None: this is the first."""

    def arrived(self, sender: Sender, item: Batch | EpochEnd) -> None:
        """In the order in which the sender has sent it."""
        self._waiting[sender].append(item)

    def newest(self, sender: Sender) -> Batch | EpochEnd | None:
        """What has arrived last of this sender and was not taken; None if everything was."""
        waiting = self._waiting[sender]
        return waiting[-1] if waiting else None

    def is_wanted(self, sender: Sender) -> bool:
        """Whether more of this sender may belong to the present epoch."""
        return sender not in self._ended and not any(
            isinstance(item, EpochEnd) for item in self._waiting[sender]
        )

    def take(self) -> list[tuple[Sender, Batch]]:
        """All that has arrived of the present epoch, and was not taken yet."""
        taken: list[tuple[Sender, Batch]] = []
        for sender, waiting in self._waiting.items():
            while waiting and sender not in self._ended:
                item = waiting[0]
                if isinstance(item, EpochEnd):
                    self._ended.add(sender)
                else:
                    waiting.popleft()
                    taken.append((sender, item))
        return taken

    @property
    def end(self) -> EpochEnd | None:
        """The end of the present epoch, once it is aligned and everything was taken.

        :raises ProtocolError: the senders do not agree about it, or it is not that of the epoch
            which follows the last one: an end was sent twice, or is missing.
        """
        if len(self._ended) < len(self._waiting):
            return None
        first = (waiting[0] for waiting in self._waiting.values())
        ends = [item for item in first if isinstance(item, EpochEnd)]
        if len(set(ends)) > 1:
            raise ProtocolError(f"Tasks have sent different ends of an epoch: {set(ends)}.")
        if self._over is not None and ends[0].epoch != self._over + 1:
            raise ProtocolError(
                f"Tasks have sent the end of epoch {ends[0].epoch} behind that of epoch "
                f"{self._over}."
            )
        return replace(ends[0], filled=any(end.filled for end in ends))

    def go_on(self) -> None:
        """The next epoch begins; the present one must be aligned."""
        assert len(self._ended) == len(self._waiting)
        for waiting in self._waiting.values():
            over = waiting.popleft()
            assert isinstance(over, EpochEnd)
            self._over = over.epoch
        self._ended.clear()
