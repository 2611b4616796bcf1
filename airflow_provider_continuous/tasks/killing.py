"""Whether somebody has really ended a task, and what becomes of the query it watched.

Airflow also calls ``on_kill`` when nobody wants anything to end: when a worker shuts down, and, for
a deferred task, when a triggerer that fell silent comes back and finds its triggers given to
another one. So the query is asked to end only if Airflow says that this very task is over, and the
run that the task watched still holds the checkpoint. In doubt nothing is asked, and the log says
why.

A cleared task is not over: its next attempt finds the query, and adopts or replaces it.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.standbys import is_followed, standby_that_runs
from airflow_provider_continuous.deploy.submitted import QueryStartError
from airflow_provider_continuous.errors import is_final
from airflow_provider_continuous.tasks.users import Users
from engine.checkpoint.query_state import QueryState
from engine.errors import ContinuousError

if TYPE_CHECKING:
    from airflow_provider_continuous.deploy.submitted import SubmittedQuery
    from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
    from engine.checkpoint.checkpoint import CheckpointStatus

KillAction = Literal["drain", "stop", "detach"]
"""What to ask of the query when its task is killed; ``detach``: nothing."""

SILENT_MAX_S = 300.0
"""Storage, or a cluster, that does not answer is asked again for so long to end a query."""
AGAIN_S = 5.0

DELETED: Final = "deleted"
_OVER: Final = frozenset({"failed", "success", "skipped", "removed", "upstream_failed", DELETED})


@dataclass(frozen=True)
class TaskIdentity:
    """Which task of which DAG run."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @classmethod
    def of(cls, task_instance: Any) -> TaskIdentity:
        """Take it from a task instance, that of a worker or that of a trigger."""
        map_index = getattr(task_instance, "map_index", None)
        return cls(
            task_instance.dag_id,
            task_instance.run_id,
            task_instance.task_id,
            -1 if map_index is None else map_index,
        )

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped}, {self.run_id}"


def task_state(task: TaskIdentity) -> str:
    """Ask Airflow for the state of a task now: ``none`` before it is scheduled, ``deleted``.

    Blocks; of a triggerer, call it in a thread.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id,
        task_ids=[task.task_id],
        run_ids=[task.run_id],
        map_index=task.map_index,
    ).get(task.run_id, {})
    key = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
    return str(states.get(key, DELETED) or "none")


class EndsWithTask(ABC):
    """What ends when its task does.

    :param action: checked here: drain, stop or detach.
    :param hook: the checkpoint of its query, which notes who uses that besides.
    """

    name: str
    """What it is, for the log."""

    def __init__(
        self, action: KillAction, hook: CheckpointHook, task: TaskIdentity, log: Any
    ) -> None:
        self._action = check_action(action)
        self._hook = hook
        self._task = task
        self._log = log

    def end(self, *, is_over: bool = False) -> bool:
        """Ask it to end if the task is over; tell whether it was asked.

        :param is_over: it is, though Airflow does not say so yet.
        :raises ContinuousError: it could not be asked; see :func:`insist`.
        """
        action = self._action
        if action == "detach":
            return False
        state = "failed" if is_over else task_state(self._task)
        if state not in _OVER:
            self._leave(f"the task is {state}, and not over")
            return False
        if not self._ask(action):
            return False
        self._log.info("Asked %s to %s: the task is %s", self.name, action, state)
        return True

    def end_within(self, seconds: float, *, is_over: bool = False) -> None:
        """As :meth:`end`, from a signal handler: never longer than this, never an error.

        The main thread, which the signal has interrupted, may be talking to Airflow just now;
        this needs a thread of its own to give up on.
        """
        thread = threading.Thread(
            target=self._end_or_log, args=[is_over], name="on_kill", daemon=True
        )
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            self._leave(f"whether it is to end was not told, or not heard, within {seconds:g} s")

    @abstractmethod
    def _ask(self, action: Literal["drain", "stop"]) -> bool:
        """Ask it, and tell whether that made sense.

        :raises ContinuousError: it could not be asked; with ``retryable``, it can be later.
        """

    def _end_or_log(self, is_over: bool) -> None:
        try:
            insist(lambda: self.end(is_over=is_over), self._log)
        except Exception as error:
            self._leave(f"it cannot be told what became of the task: {error}")

    def _is_left_to_others(self) -> bool:
        storage = self._hook.checkpoint.storage
        others = Users(storage, self._task.dag_id, self._task.run_id).others()
        if others:
            self._leave(f"it is used by {'; '.join(others)}")
        return bool(others)

    def _leave(self, reason: str) -> None:
        self._log.info("Killed, and %s goes on: %s", self.name, reason)


class StartOfTask(EndsWithTask):
    """A query that a task has submitted, and which does not hold its checkpoint yet.

    A driver that nobody can reach from here may start all the same.
    """

    def __init__(
        self,
        action: KillAction,
        hook: CheckpointHook,
        started: SubmittedQuery,
        task: TaskIdentity,
        log: Any,
    ) -> None:
        super().__init__(action, hook, task, log)
        self._started = started
        self.name = f"submission {started.handle.name}"

    def _ask(self, action: Literal["drain", "stop"]) -> bool:
        if self._is_left_to_others():
            return False
        if self._started.kill():  # it drains, should it run by now
            self._started.forget_secrets()
            return True
        driver = self._started.look()
        if self._started.is_on_cluster and driver.seen and driver.state is not DriverState.ENDED:
            raise QueryStartError(f"{self.name} could not be ended: {driver.detail}.")
        self._leave(
            f"there is nobody to ask, it has ended or is out of reach from here: {driver.detail}"
        )
        return False


class QueryOfTask(EndsWithTask):
    """The run that a task watches, to be asked to end with it."""

    def __init__(
        self, action: KillAction, hook: CheckpointHook, run_id: str, task: TaskIdentity, log: Any
    ) -> None:
        super().__init__(action, hook, task, log)
        self._run_id = run_id
        self.name = f"run {run_id}"

    def _ask(self, action: Literal["drain", "stop"]) -> bool:
        status = self._hook.status()
        run_id = self._run_to_ask(status)
        if run_id is None:
            self._leave(f"the checkpoint is with run {status.run_id}, {status.state}")
            return False
        if self._is_left_to_others():
            return False
        self._tell(action, run_id)
        if status.state is QueryState.LOST:
            successor = self._run_to_ask(self._hook.status())  # the standby may have been faster
            if successor not in (None, run_id):
                self._tell(action, successor)
        return True

    def _tell(self, action: Literal["drain", "stop"], run_id: str | None) -> None:
        by = f"Airflow, which has ended the task {self._task}"
        self._hook.checkpoint.requests.ask(action, by=by, run_id=run_id)

    def _run_to_ask(self, status: CheckpointStatus) -> str | None:
        """The run that was watched, or the one of this task's standby that has taken over."""
        storage = self._hook.checkpoint.storage
        if status.run_id == self._run_id:
            # A standby does not take over from a run that was asked to end.
            lost = status.state is QueryState.LOST
            asked = self._hook.may_go_on(status) or (lost and is_followed(storage))
            return self._run_id if asked else None
        standby = standby_that_runs(storage, status) if status.state.is_active else None
        own = standby is not None and standby.by == str(self._task)
        return status.run_id if own else None


def insist(end: Callable[[], object], log: Any) -> None:
    """End something; where its storage, or its cluster, does not answer, try again for
    :data:`SILENT_MAX_S`. Each time it is looked anew whether the task is over.

    :raises ContinuousError: it is final, or that was not long enough.
    """
    never, until, told = threading.Event(), time.monotonic() + SILENT_MAX_S, False
    while True:
        try:
            end()
            return
        except ContinuousError as error:
            if is_final(error) or time.monotonic() >= until:
                raise
            if not told:
                log.info("Trying again for up to %g s: %s", SILENT_MAX_S, error)
            told = True
        never.wait(AGAIN_S)


def check_action(action: str) -> KillAction:
    """Return it.

    :raises ValueError: there is no such action.
    """
    if action not in get_args(KillAction):
        raise ValueError(f"on_kill_action is {action!r}; it is drain, stop or detach.")
    return action  # type: ignore[return-value]  # it is one of them
