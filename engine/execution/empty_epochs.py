"""How long an epoch may stay open in which nothing is read or written."""

from __future__ import annotations

from collections.abc import Iterable

from engine.wire.messages import EpochCommitMessage, RecordsArrived


class EmptyEpochs:
    """What a run knows of them.

    :param longest_ms: see option ``emptyEpochInterval``; 0: an empty epoch is as long as any.
    :param untold: the tasks that have to tell with their first epoch what an earlier run has left:
        timers in the state, a watermark that was held back. So that epoch is as long as any.
    """

    def __init__(self, run_id: str, longest_ms: int, untold: Iterable[int] = ()) -> None:
        self._run_id, self._longest_ms = run_id, longest_ms
        self._filled = -1
        self._untold = set(untold)
        self._due_ms: dict[int, int | None] = {}

    def arrived(self, event: RecordsArrived) -> bool:
        """:return: whether it is news of this run."""
        if event.run_id != self._run_id:
            return False
        self._filled = max(self._filled, event.epoch)
        return True

    def reported(self, event: EpochCommitMessage) -> bool:
        """:return: whether the open epoch may have to end earlier, or may go on for longer now."""
        if event.run_id != self._run_id:
            return False
        task, due_ms = event.partition, event.counters.due_ms
        is_news = task in self._untold or self._due_ms.get(task) != due_ms
        self._untold.discard(task)
        self._due_ms[task] = due_ms
        return is_news

    def is_empty(self, epoch: int) -> bool:
        """Whether that is known of an open epoch; False if nobody has asked the tasks."""
        return self._longest_ms > 0 and self._filled < epoch

    def left_ms(
        self, epoch: int, *, opened_ms: int, now_ms: int, watermark_due_ms: int | None = None
    ) -> int:
        """How much longer the open epoch may go on; 0: it ends as any other.

        A timer fires at the end of an epoch that was opened when it was due, or later: this one
        ends then, and the next one as soon as it can, for as long as the timer is there.

        :param now_ms: of the wall clock, as ``opened_ms``: it may have gone back since.
        :param watermark_due_ms: when its end brings another watermark, which may close what waits
            for it; None: never.
        """
        left_ms = opened_ms + self._longest_ms - now_ms
        if not self.is_empty(epoch) or self._untold or left_ms > self._longest_ms:
            return 0
        due_ms = [each for each in (watermark_due_ms, *self._due_ms.values()) if each is not None]
        return max(0, min([left_ms, *(each - now_ms for each in due_ms)]))
