"""A query's world without processes: drivers that take the real lease, and what Airflow makes of
its tasks. What happens next is up to a walk."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_continuous.compat import (
    AirflowException,
    AirflowFailException,
    TaskDeferred,
)
from airflow_provider_continuous.deploy import deployment
from airflow_provider_continuous.deploy.contract import (
    Backend,
    DriverState,
    DriverStatus,
    Handle,
)
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.tasks import killing, memory, users
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.kill import KillableTrigger
from engine.checkpoint.lease import Lease
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.errors import ConcurrentRunError, ContinuousError
from tests.airflow.conftest import FakeStore
from tests.airflow.live_checkpoint import LiveCheckpoint


class WorkerDiesError(BaseException):
    """The process of a task is gone, in the middle of what it did."""


@dataclass
class Driver:
    """:ivar by: who has started it. ``lease`` once it holds the checkpoint."""

    pid: int
    by: str
    lease: Lease | None = None

    @property
    def process(self) -> Process:
        return Process(socket.gethostname(), self.pid, f"walked/{self.pid}")


class Drivers(Backend):
    """Drivers of one query: those that run, and who has started how many."""

    name = "local"

    def __init__(self, live: LiveCheckpoint, patch: pytest.MonkeyPatch) -> None:
        self.live = live
        self.running: dict[int, Driver] = {}
        self.started: list[Driver] = []
        self.names: dict[str, Driver] = {}
        """By submission."""
        self.was_started: Callable[[Driver], None] = lambda _: None
        """Called before anybody has noted it."""
        self._here = Process(socket.gethostname(), 1, "walked/1")
        patch.setattr(deployment, "backend_of", lambda _: (self, ""))
        patch.setattr(deployment, "backend_that_knows", lambda *_: self)
        patch.setattr(deployment, "_POLL_S", 0.0)
        patch.setattr(Process, "current", classmethod(lambda _: self._here))
        patch.setattr(Process, "is_running", lambda process: process.pid in self.running)

    # -- what the provider asks -------------------------------------------------------------------

    def submit(self, submission: Submission, handle: Handle) -> Handle:
        driver = self.start(handle.by, handle.name)
        self.was_started(driver)
        return replace(handle, pid=driver.pid, started=driver.process.started)

    def start(self, by: str, name: str) -> Driver:
        """Start one; nobody else may be there, but for one that holds the checkpoint."""
        waiting = [each for each in self.running.values() if each.lease is None]
        assert not waiting, f"{by} starts a driver beside {waiting}"
        driver = Driver(len(self.started) + 100, by)
        self.names[name] = self.running[driver.pid] = driver
        self.started.append(driver)
        return driver

    def find(self, handle: Handle) -> Handle:
        driver = self.names.get(handle.name)
        if handle.pid is not None or driver is None or driver.pid not in self.running:
            return handle
        return replace(handle, pid=driver.pid, started=driver.process.started)

    def status(self, handle: Handle) -> DriverStatus:
        if handle.pid is None:
            return DriverStatus(DriverState.ENDED, "nothing was started")
        runs = handle.pid in self.running
        if runs and self.running[handle.pid].lease is None:
            self.goes_on(self.running[handle.pid])
        return DriverStatus(DriverState.RUNNING if runs else DriverState.ENDED, "as it is")

    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        return self.running.pop(handle.pid or 0, None) is not None

    # -- what becomes of them ---------------------------------------------------------------------

    @property
    def holder(self) -> Driver | None:
        """The driver that runs the query."""
        return next((each for each in self.running.values() if each.lease is not None), None)

    def goes_on(self, driver: Driver) -> None:
        """A driver does what is next: takes the lease, ends as it was asked to, or commits."""
        checkpoint = self.live.checkpoint
        if driver.lease is None:
            self._here, before = driver.process, self._here
            try:
                driver.lease = Lease.acquire(
                    checkpoint, run_id=f"run-{driver.pid}", heartbeat_interval_ms=600_000
                )
                driver.lease.heartbeat(state=QueryState.RUNNING)
            except ConcurrentRunError:
                del self.running[driver.pid]
            finally:
                self._here = before
        elif checkpoint.requests.pending_end(driver.lease.run_id):
            self.ends(driver, QueryState.STOPPED)
        else:
            self.live.commit(checkpoint.committed_epoch() + 1)

    def ends(self, driver: Driver, state: QueryState) -> None:
        """It says so, or is just gone: LOST."""
        del self.running[driver.pid]
        if driver.lease is not None and state is not QueryState.LOST:
            driver.lease.release(state, "boom" if state is QueryState.FAILED else None)


class Task:
    """A task of a DAG run of its own, as Airflow has it.

    :param made: makes its operator, in each process anew.
    :ivar state: ``queued``, ``deferred``, ``fired`` between a trigger's event and the worker that
        goes on with it, ``success`` or ``failed``.
    """

    def __init__(self, name: str, made: Callable[[], Any], retries: int) -> None:
        self.name, self._made = name, made
        self.state, self.error = "queued", ""
        self.result: dict[str, Any] = {}
        self.trigger: CheckpointTrigger | None = None
        self.deaths, self.was_killed = 0, False
        self.operator: Any = None
        self._method = "execute"
        self._event: dict[str, Any] = {}
        self._ti = SimpleNamespace(
            dag_id=name,
            task_id=name,
            run_id="walk",
            map_index=-1,
            try_number=1,
            max_tries=retries,
            task=SimpleNamespace(outlets=[]),
            xcom_push=lambda *_: None,
        )
        self.context: Any = {"ti": self._ti, "run_id": "walk", "task_state_store": FakeStore()}

    def __str__(self) -> str:
        return f"{self.name}.{self.name}, walk"

    @property
    def is_over(self) -> bool:
        return self.state in ("success", "failed")

    def goes_on(self) -> None:
        """Do what is next: in a worker, or a look in the triggerer."""
        if self.state != "deferred":
            self._in_worker()
            return
        assert self.trigger is not None
        event = self.trigger.observe()
        if event is not None:
            self.state, self._event = "fired", json.loads(json.dumps(event))

    def moves(self) -> None:
        """Another triggerer has its trigger."""
        assert self.trigger is not None
        class_path, arguments = self.trigger.serialize()
        assert class_path.endswith(type(self.trigger).__qualname__)
        self.trigger = type(self.trigger)(**json.loads(json.dumps(arguments)))

    @property
    def memory(self) -> dict[str, Any]:
        """What it has in Airflow's store."""
        found: dict[str, Any] = self.context["task_state_store"]
        return found

    @property
    def can_be_killed(self) -> bool:
        """Whether it waits with what would end a query."""
        return isinstance(self.trigger, KillableTrigger)

    def is_killed(self) -> None:
        """Somebody marks it as failed. Its worker goes on for a while."""
        was, self.state, self.was_killed = self.state, "failed", True
        if was == "running":
            self.operator.on_kill()
        else:
            assert isinstance(self.trigger, KillableTrigger)
            told = {name: value for name, value in vars(self._ti).items() if name != "task"}
            self.trigger.task_instance = SimpleNamespace(**told)  # type: ignore[assignment]
            asyncio.run(self.trigger.on_kill())

    def _in_worker(self) -> None:
        memory.forget_process()
        method, self.operator = self._method, self._made()
        self.state, self._method = "running", "execute"
        try:
            given = [] if method == "execute" else [self._event]
            self.result = getattr(self.operator, method)(self.context, *given)
            self.state = "success"
        except TaskDeferred as found:
            self.trigger = cast("CheckpointTrigger", found.trigger)
            self.state, self._method = "deferred", found.method_name
            self.moves()
        except AirflowFailException as error:
            self.state, self.error = "failed", str(error)
        except (AirflowException, ContinuousError) as error:
            self._has_failed(str(error))
        except WorkerDiesError:
            self.deaths += 1
            self._has_failed("its worker has died")
        if self.was_killed:
            self.state = "failed"

    def _has_failed(self, error: str) -> None:
        self.error = error
        self._ti.try_number += 1
        self.state = "queued" if self._ti.try_number <= self._ti.max_tries + 1 else "failed"
        if self.state == "failed":
            self._ti.try_number -= 1


def say(patch: pytest.MonkeyPatch, tasks: dict[str, Task]) -> None:
    """Airflow's answers about tasks, and the DAG runs that they are."""
    patch.setattr(killing, "task_state", lambda task: tasks[task.task_id].state)
    patch.setattr(users, "is_on", lambda dag_id, _: not tasks[dag_id].is_over)
