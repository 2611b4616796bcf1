"""Reports epochs to the driver, each once its state is durable.

A task without state reports at once. With state a thread writes the snapshot and then reports,
while the task is at the next epoch: at most :data:`AHEAD_MAX` epochs wait for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from engine.errors import CheckpointError
from engine.state.snapshots import Job
from engine.task.blame import Whose, blaming
from engine.task.channel import Channel, TaskDismissed
from engine.task.inputs import INTERRUPTED_POLL_S
from engine.wire.messages import EpochCommitMessage

AHEAD_MAX: Final = 2
_CLOSE_S: Final = 5.0
"""A storage that hangs is left behind."""


class Reporter:
    """Reports in the order of the epochs.

    :param send: tells the driver.
    :param fail: ends the task, for a snapshot could not be written, or an epoch not be reported.
        Called at once, on the thread: when the present epoch ends nobody knows.
    :param whose: the task, as errors name it.
    """

    def __init__(
        self,
        channel: Channel,
        send: Callable[[EpochCommitMessage], None],
        fail: Callable[[BaseException], None],
        whose: Whose,
    ) -> None:
        self._channel, self._send, self._fail, self._whose = channel, send, fail, whose
        self._waiting: queue.Queue[tuple[EpochCommitMessage, Job] | None] = queue.Queue(AHEAD_MAX)
        self._thread: threading.Thread | None = None

    def report(self, message: EpochCommitMessage, snapshot: Job | None) -> None:
        """Report an epoch; behind its snapshot, if there is one.

        :raises TaskDismissed: the task has to leave.
        """
        if snapshot is None:
            self._send(message)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="task-snapshots", daemon=True)
            self._thread.start()
        while True:
            try:
                self._waiting.put((message, snapshot), timeout=INTERRUPTED_POLL_S)
                return
            except queue.Full:
                if self._channel.dismissed is not None:
                    raise TaskDismissed from None

    def close(self) -> None:
        """End the thread behind what it is at; what waits is not reported."""
        if self._thread is None:
            return
        try:
            while True:
                self._waiting.get_nowait()
        except queue.Empty:
            self._waiting.put(None)
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            message, snapshot = item
            try:
                with blaming(CheckpointError, "writing its state", self._whose, message.epoch):
                    state = snapshot.write()
                self._send(replace(message, state=state))
            except BaseException as exc:
                self._fail(exc)
                return
