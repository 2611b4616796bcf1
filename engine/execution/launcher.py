"""How tasks get to run: on Spark's executors, or on threads without a JVM."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Protocol

from engine.errors import ContinuousError, TaskLostError
from engine.execution.slots import LOCAL, Slots, SlotSupply
from engine.redaction.logs import log_failure
from engine.task.loop import run_task
from engine.task.spec import TaskSpec

logger = logging.getLogger(__name__)
CANCEL_TIMEOUT_S = 10.0
OnEnd = Callable[[ContinuousError | None], None]


class LaunchedTasks(Protocol):
    """The tasks of one run."""

    def unplaced(self) -> int:
        """How many of them wait for a slot."""

    def cancel(self) -> None:
        """Give them a moment to leave, kill those that are still there, and return when they are
        gone; a warning if they do not go."""


class Launcher(Protocol):
    """Runs tasks: those of a run may be about to leave when those of the next one are launched.

    :ivar host: an address of this process that the tasks can reach.
    :ivar bind_host: the address to listen on, if it is another one.
    :ivar supply: where its task slots come from.
    :ivar application: what the cluster calls this application, for the checkpoint's lease.
    :ivar application_url: where its web page is, if it has one.
    """

    host: str
    bind_host: str | None

    @property
    def supply(self) -> SlotSupply: ...

    @property
    def application(self) -> str | None: ...

    @property
    def application_url(self) -> str | None: ...

    def slots(self) -> Slots | None:
        """How many tasks can run at once; None where nothing limits them."""

    def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
        """Start one task per spec, all at once, and return.

        :param on_end: called once: when the last task has ended, or with an error when one was not
            able to run, whatever the others still do.
        """


class LeavingTasks:
    """The tasks of runs that have ended, until the last one is gone."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def add(self, tasks: LaunchedTasks, when_gone: Callable[[], None]) -> threading.Thread:
        """Cancel them; the thread ends when they are gone."""

        def cancel() -> None:
            try:
                tasks.cancel()
            except Exception:
                log_failure(logger, "the tasks were not cancelled cleanly")
            finally:
                when_gone()

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=cancel, name="task-cancel", daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def await_gone(self) -> None:
        """Wait until none is left, or those that are hang."""
        for thread in self._threads:
            thread.join()


class ThreadLauncher:
    """Each task is a thread of this process: for tests, and for work that needs no cluster."""

    host = "127.0.0.1"
    bind_host: str | None = None
    supply = LOCAL
    application: str | None = None
    application_url: str | None = None

    def slots(self) -> Slots | None:
        return None

    def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
        return _Threads(run_id, specs, on_end)


class _Threads:
    def __init__(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> None:
        self._run_id, self._on_end = run_id, on_end
        self._errors: list[Exception] = []
        self._threads = [
            threading.Thread(
                target=self._body, args=(spec,), name=f"task-{spec.index}", daemon=True
            )
            for spec in specs
        ]
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._watch, name="task-watch", daemon=True).start()

    def _body(self, spec: TaskSpec) -> None:
        # As on an executor, each task has a writer of its own.
        writing = replace(spec.writing, writer=copy(spec.writing.writer))
        try:
            run_task(replace(spec, writing=writing))
        except Exception as exc:
            self._errors.append(exc)

    def _watch(self) -> None:
        for thread in self._threads:
            thread.join()
        errors = self._errors
        self._on_end(TaskLostError(f"A task could not run: {errors[0]}") if errors else None)

    def unplaced(self) -> int:
        return 0

    def cancel(self) -> None:
        # A thread cannot be killed; all tasks have been dismissed and leave between two batches.
        deadline_s = time.monotonic() + CANCEL_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        left = [thread.name for thread in self._threads if thread.is_alive()]
        if left:
            logger.warning("%s of run %s have not left: they hang", ", ".join(left), self._run_id)
