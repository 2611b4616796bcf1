"""What a standby does until it is its turn: watch the run that holds the checkpoint.

It is its turn when that run has died: its process is gone, which is seen at once on the same
machine, or its lease was not renewed for as long as a lease lasts, by the standby's own clock. A
run that has ended as it was told to, or has given up, ends its standby as well.

Nothing is decided here: who takes the checkpoint is decided by the lease, of which every
generation has one owner (:mod:`engine.checkpoint.lease`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import LeaseRecord, read_holder
from engine.errors import CheckpointError, ContinuousError

logger = logging.getLogger(__name__)
_PROCESS_LOOK_S: Final = 0.05
_WARM_S: Final = 30.0
"""Spark ends Python workers that are idle for a minute."""


class NoTurn(Exception):
    """The standby is not needed any more.

    :ivar holder: the run that has ended; None if whoever asked does not want to wait any longer.
    :ivar epoch: the last committed one.
    """

    def __init__(self, holder: LeaseRecord | None, epoch: int = -1) -> None:
        super().__init__("cancelled" if holder is None else f"{holder.run_id} is {holder.state}")
        self.holder, self.epoch = holder, epoch


class Standby:
    """See the module.

    :param is_cancelled: looked at all the time; true ends the waiting.
    """

    def __init__(self, is_cancelled: Callable[[], bool], clock: Clock | None = None) -> None:
        self._is_cancelled = is_cancelled
        self._clock = clock or SystemClock()
        self.lost: LeaseRecord | None = None
        """The lease that was waited for, and was not renewed."""

    def await_turn(
        self, checkpoint: Checkpoint, keep_warm: Callable[[], None] = lambda: None
    ) -> bool:
        """Return when nobody runs the query.

        Storage that cannot be read is waited for: the run that writes there has the same trouble.

        :param keep_warm: called while it waits, every half a minute.
        :returns: whether there was anybody to wait for.
        :raises NoTurn: see there.
        """
        holder = self._look(checkpoint)
        if holder is None or not holder.state.is_active:
            return False
        logger.info(
            "standing by: run %s, process %s on %s, holds %s",
            holder.run_id, holder.pid, holder.host, checkpoint.storage.url,
        )  # fmt: skip
        keep_warm()
        renewed_s = warmed_s = self._clock.monotonic_s()
        while True:
            has_died = self._has_died(holder, renewed_s)
            now = self._look(checkpoint)  # it may have said that it ends, and then ended
            if now is None:
                self._clock.sleep(_PROCESS_LOOK_S)
            elif now != holder:
                holder, renewed_s = now, self._clock.monotonic_s()
                if not holder.state.is_active:
                    raise NoTurn(holder, checkpoint.committed_epoch())
            elif has_died:
                break
            if self._clock.monotonic_s() - warmed_s >= _WARM_S:
                keep_warm()
                warmed_s = self._clock.monotonic_s()
        logger.warning("run %s is lost: this standby takes over", holder.run_id)
        self.lost = holder
        return True

    def _has_died(self, holder: LeaseRecord, renewed_s: float) -> bool:
        """Watches it until its next heartbeat is due.

        :param renewed_s: when a heartbeat was last seen; monotonic.
        """
        due_s = self._clock.monotonic_s() + holder.heartbeat_interval_ms / 1000
        while True:
            if self._is_cancelled():
                raise NoTurn(None)
            if holder.process.is_running() is False:
                return True
            now_s = self._clock.monotonic_s()
            if now_s - renewed_s >= holder.expires_after_ms / 1000:
                return True
            if now_s >= due_s:
                return False
            self._clock.sleep(_PROCESS_LOOK_S)

    def _look(self, checkpoint: Checkpoint) -> LeaseRecord | None:
        """None: nobody has it, or it cannot be seen."""
        try:
            return read_holder(checkpoint.storage)
        except CheckpointError as exc:
            logger.warning("the lease cannot be read: %s", exc)
            return None


def ended_error(holder: LeaseRecord) -> ContinuousError | None:
    """Why the run that was stood by for has failed; None if it has not."""
    if holder.error is None:
        return None
    return ContinuousError(
        f"Run {holder.run_id} on {holder.host} has failed, and its standby ends with it: "
        f"{holder.error}",
        hint="Mend the cause, then start the query and its standby again.",
    )
