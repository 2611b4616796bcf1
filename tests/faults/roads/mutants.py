"""Wrong versions of the order of an epoch, which every road has to catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.coordinator.epoch_runner import EpochRunner

COMMITTED_EARLY = "the sink commits before the offset log"


def commit_before_log() -> None:
    """A restart plans the epoch anew, and the sink has it already."""
    right = EpochRunner.commit

    def commit(self: Any, epoch: int, offsets: Any, messages: Sequence[Any], **rest: Any) -> Any:
        self._sink.commit(list(messages), epoch)
        return right(self, epoch, offsets, messages, **rest)

    EpochRunner.commit = commit  # type: ignore[method-assign]
