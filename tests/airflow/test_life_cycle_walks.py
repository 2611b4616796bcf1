"""Random walks through the lives of queries and of the tasks that start, keep and end them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RestartContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.supervising import supervisor
from tests.airflow.walked_world import Driver, Drivers, Task, WorkerDiesError, say

STEPS = 40
OTHERS_MAX = 3
ENDS = [QueryState.FAILED, QueryState.LOST, QueryState.STOPPED]


class Walk:
    """A task that keeps a query, and others that restart, start and drain it meanwhile."""

    def __init__(self, spec: dict[str, Any], seed: int, patch: pytest.MonkeyPatch) -> None:
        self.chance = Random(seed)
        self.live = LiveCheckpoint(spec["checkpoint_location"])
        self.drivers = Drivers(self.live, patch)
        self.drivers.was_started = self._was_started
        self.spec = spec
        options: dict[str, Any] = {
            "restarts": self.chance.randrange(4),
            "until_epoch": self.chance.choice([None, None, 6]),
            "deferrable": True,
        }
        self.keeper = Task(
            "keeper",
            lambda: supervisor(spec, task_id="keeper", **options),
            retries=self.chance.randrange(3),
        )
        self.tasks = {"keeper": self.keeper}
        self.others_at_kill = 0
        say(patch, self.tasks)

    def step(self) -> None:
        moves = [self._drivers, self._airflow, self._airflow, self._end, self._others, self._kill]
        self.chance.choices(moves, [2, 2, 1, 1, 1, 0.3])[0]()

    def settle(self) -> None:
        """What was asked to end does."""
        for _ in range(3):
            self._drivers()
        if self.keeper.was_killed and self.others_at_kill == 0:
            own = [each.pid for each in self.drivers.running.values() if self._is_own(each)]
            assert own == [], "nobody knows of them"

    # -- what may happen --------------------------------------------------------------------------

    def _drivers(self) -> None:
        for driver in list(self.drivers.running.values()):
            self.drivers.goes_on(driver)

    def _end(self) -> None:
        driver = self.drivers.holder
        if driver is not None and self.chance.random() < 0.6:
            self.drivers.ends(driver, self.chance.choice(ENDS))

    def _airflow(self) -> None:
        task = self.chance.choice([each for each in self.tasks.values() if not each.is_over])
        if task.state == "deferred" and self.chance.random() < 0.2:
            task.moves()
        task.goes_on()
        self._check(task)

    def _kill(self) -> None:
        if self.keeper.state == "deferred":
            self.keeper.goes_on()  # a look of a moment ago
        if self.keeper.state == "deferred" and self.keeper.can_be_killed:
            self._kill_keeper()

    def _kill_keeper(self) -> None:
        others = [each for each in self.tasks.values() if not each.is_over]
        self.others_at_kill = len(others) - 1
        self.keeper.is_killed()

    def _was_started(self, driver: Driver) -> None:
        if not self._is_own(driver):
            return
        if self.chance.random() < 0.1:
            raise WorkerDiesError
        if self.chance.random() < 0.1:
            self._kill_keeper()

    def _others(self) -> None:
        number = len(self.tasks)
        if number <= OTHERS_MAX:
            made = self.chance.choice([self._restart, self._rewind, self._start, self._drain])
            self.tasks[f"other-{number}"] = self._other(made, f"other-{number}")

    def _other(self, made: Callable[..., Any], name: str) -> Task:
        arguments: dict[str, Any] = {"task_id": name, "poll_interval": 0.05}
        if made == self._rewind:
            arguments["from_epoch"] = max(0, self.live.checkpoint.committed_epoch() - 1)
        return Task(name, lambda: made(**arguments), retries=1)

    def _restart(self, **arguments: Any) -> Any:
        return RestartContinuousQueryOperator(spec=self.spec, **arguments)

    def _rewind(self, **arguments: Any) -> Any:
        return RestartContinuousQueryOperator(spec=self.spec, accept_repeats=True, **arguments)

    def _start(self, **arguments: Any) -> Any:
        return StartContinuousQueryOperator(spec=self.spec, **arguments)

    def _drain(self, **arguments: Any) -> Any:
        return DrainContinuousQueryOperator(
            checkpoint_location=self.live.location, force=True, **arguments
        )

    # -- what must hold ---------------------------------------------------------------------------

    def _is_own(self, driver: Driver) -> bool:
        return driver.by == str(self.keeper)

    def _check(self, task: Task) -> None:
        self._check_restarts()
        status = self.live.checkpoint.status()
        asked = getattr(task.operator, "from_epoch", None)
        if task.state == "success" and asked is not None:
            assert any(name.startswith("rewound") for name in task.memory), "it was not rewound"
        if task is not self.keeper or task.was_killed:
            return
        if task.state == "failed":
            assert not status.state.is_active, f"{status.run_id} goes on: {task.error}"
        if task.state == "success":
            assert task.result["reason"] == "epoch" or task.result["state"] == "STOPPED"
            assert task.result["epoch"] >= 6 or task.result["reason"] == "ended"

    def _check_restarts(self) -> None:
        """Only what the task has started counts, but for the first time."""
        noted = [value for name, value in self.keeper.memory.items() if name[:8] == "restarts"]
        restarts = noted[0]["total"] if noted else 0
        started = self.drivers.started
        own = sum(map(self._is_own, started)) - (bool(started) and self._is_own(started[0]))
        assert restarts <= own + self.keeper.deaths, "somebody else has started it"


@pytest.mark.parametrize("seed", range(16))
def test_a_query_that_is_kept(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    walk = Walk(spec, seed, monkeypatch)
    for _ in range(STEPS):
        if not walk.keeper.is_over:
            walk.step()
    walk.settle()
