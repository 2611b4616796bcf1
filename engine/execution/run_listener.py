"""What a run tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.coordinator.coordinator import Phase
from engine.coordinator.epoch_runner import CommittedEpoch
from engine.execution.health import Stall
from engine.progress.report import EpochTimes
from engine.wire.messages import EpochCommitMessage


class RunListener(Protocol):
    """Hears how a run goes, on the run's threads."""

    def on_phase(self, phase: Phase, *, reconfiguring: bool) -> None:
        """The run has entered another phase.

        :param reconfiguring: it is draining because the source's partitions have changed.
        """

    def on_committed(
        self,
        committed: CommittedEpoch,
        reports: Sequence[Sequence[EpochCommitMessage]],
        times: EpochTimes,
    ) -> None:
        """An epoch was committed.

        :param reports: per stream, one for each of its partitions.
        """

    def on_idle(self) -> None:
        """Every epoch is committed, and nothing was read since. Told again and again."""

    def on_waiting(self, what: str | None) -> None:
        """The tasks wait for this; None: it has come."""

    def on_stall(self, stall: Stall | None) -> None:
        """Epochs are late (told once per stall), or advance again."""
