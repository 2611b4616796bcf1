"""What a standby does until it is its turn: watch the run that holds the checkpoint.

It is its turn when that run has died: its process is gone, which is seen at once on the same
machine, or its lease was not renewed for as long as a lease lasts, by the standby's own clock. A
run that has ended as it was told to, or has given up, ends its standby as well; and so does one
that dies after it was asked to end: nobody wants the query to go on.

Nothing is decided here: who takes the checkpoint is decided by the lease, of which every
generation has one owner (:mod:`engine.checkpoint.lease`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import LeaseRecord, read_holder
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from engine.errors import CheckpointError, ContinuousError

_T = TypeVar("_T")
logger = logging.getLogger(__name__)
_PROCESS_LOOK_S: Final = 0.05


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
    :param begins: whether it begins a query that has ended, or never ran. If not, it waits for one
        run alone: without it, or when another run takes over, that is NoTurn.
    """

    def __init__(
        self,
        is_cancelled: Callable[[], bool],
        clock: Clock | None = None,
        *,
        begins: bool = True,
    ) -> None:
        self._is_cancelled = is_cancelled
        self._clock = clock or SystemClock()
        self._begins = begins
        self.lost: LeaseRecord | None = None
        """The lease that was waited for, and was not renewed."""
        self._is_away = False  # the storage, at the last look
        self._renewed_s = 0.0  # when a heartbeat was last seen, or could not be; monotonic

    def await_turn(
        self, checkpoint: Checkpoint, keep_warm: Callable[[], None] = lambda: None
    ) -> bool:
        """Return when nobody runs the query.

        Storage that cannot be read is waited for: the run that writes there has the same trouble,
        and a whole lease's time behind that.

        :param keep_warm: called again and again while it waits; returns at once.
        :returns: whether there was anybody to wait for.
        :raises NoTurn: see there.
        """
        holder = self._look(checkpoint)
        if holder is None or not holder.state.is_active:
            if not self._begins:
                raise NoTurn(holder, checkpoint.committed_epoch())
            return False
        note = OwnNote(checkpoint.storage, self._clock)
        try:
            self._wait(checkpoint, holder, note, keep_warm)
        finally:
            note.forget()
        return True

    def was_late(self, checkpoint: Checkpoint) -> None:
        """It was its turn, and another run holds the checkpoint all the same.

        :raises NoTurn: that is another one than it has waited for, and it waits for that one alone.
        """
        holder = self._look(checkpoint)
        known = None if self.lost is None else self.lost.run_id
        if not self._begins and holder is not None and holder.run_id != known:
            raise NoTurn(holder, checkpoint.committed_epoch())

    def _wait(
        self,
        checkpoint: Checkpoint,
        holder: LeaseRecord,
        note: OwnNote,
        keep_warm: Callable[[], None],
    ) -> None:
        logger.info(
            "standing by: run %s, process %s on %s, holds %s",
            holder.run_id, holder.pid, holder.host, checkpoint.storage.url,
        )  # fmt: skip

        def meanwhile() -> None:
            keep_warm()
            self._asking(note.tell)

        self._renewed_s = self._clock.monotonic_s()
        was_alive = bool(holder.process.is_running())
        while True:
            has_died = self._has_died(holder, meanwhile)
            # It may have said that it ends, and then ended.
            now = self._asking(lambda: self._look(checkpoint))
            if now is None:
                self._clock.sleep(_PROCESS_LOOK_S)
                self._renewed_s = self._clock.monotonic_s()
            elif now != holder:
                changed, was_alive = now.run_id != holder.run_id, True
                holder, self._renewed_s = now, self._clock.monotonic_s()
                if not holder.state.is_active or (changed and not self._begins):
                    raise NoTurn(holder, checkpoint.committed_epoch())
            elif has_died:
                break
        # One that was dead before we came is nobody's end: to start this is to start the query.
        if (was_alive or not self._begins) and _was_asked_to_end(checkpoint, holder):
            logger.warning("run %s is lost, and was asked to end: nobody goes on", holder.run_id)
            raise NoTurn(holder, checkpoint.committed_epoch())
        logger.warning("run %s is lost: this standby takes over", holder.run_id)
        self.lost = holder

    def _asking(self, ask: Callable[[], _T]) -> _T:
        """Ask the storage. While it answers nobody, nobody can renew a lease."""
        began_s = self._clock.monotonic_s()
        try:
            return ask()
        finally:
            self._renewed_s += self._clock.monotonic_s() - began_s

    def _has_died(self, holder: LeaseRecord, meanwhile: Callable[[], None]) -> bool:
        """Watches it until its next heartbeat is due.

        :param meanwhile: called all the time; a heartbeat may be due in minutes.
        """
        due_s = self._clock.monotonic_s() + holder.heartbeat_interval_ms / 1000
        while True:
            meanwhile()
            if self._is_cancelled():
                raise NoTurn(None)
            if holder.process.is_running() is False:
                return True
            now_s = self._clock.monotonic_s()
            if now_s - self._renewed_s >= holder.expires_after_ms / 1000:
                return True
            if now_s >= due_s:
                return False
            self._clock.sleep(_PROCESS_LOOK_S)

    def _look(self, checkpoint: Checkpoint) -> LeaseRecord | None:
        """None: nobody has it, or it cannot be seen."""
        try:
            found = read_holder(checkpoint.storage)
        except CheckpointError as exc:
            if not self._is_away:  # once: it may be away for hours
                logger.warning("the lease cannot be read: %s", exc)
            self._is_away = True
            return None
        if self._is_away:
            logger.warning("the lease can be read again")
        self._is_away = False
        return found


def _was_asked_to_end(checkpoint: Checkpoint, holder: LeaseRecord) -> bool:
    if holder.state is QueryState.DRAINING:
        return True
    try:
        return checkpoint.requests.pending_end(holder.run_id) is not None
    except CheckpointError as exc:  # as long as it does not answer, nothing can be started either
        logger.warning("what was asked of run %s cannot be read: %s", holder.run_id, exc)
        return False


def ended_error(holder: LeaseRecord) -> ContinuousError | None:
    """Why the run that was stood by for has failed; None if it has not."""
    if holder.error is None:
        return None
    return ContinuousError(
        f"Run {holder.run_id} on {holder.host} has failed, and its standby ends with it: "
        f"{holder.error}",
        hint="Mend the cause, then start the query and its standby again.",
    )
