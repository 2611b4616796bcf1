"""One scenario at work: what it promises is looked up when it is over, and judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psutil

from engine.checkpoint.standing_by import standing_by
from engine.errors import ContinuousError
from scripts.local_airflow.rest import AirflowApiError, wait_for
from tests.airflow_faults.query import AFTER_GATE, Query
from tests.airflow_faults.result import Outcome
from tests.airflow_faults.world import Run, World

_SETTLE_S = 180.0


class Case:
    """What a scenario works with: an Airflow, one query, and words for what it promises."""

    def __init__(self, name: str, world: World, query: Query) -> None:
        self.world = world
        self.query = query
        self.outcome = Outcome(name)
        self.runs: list[Run] = []

    def run(self, dag_id: str, epoch: int | str = AFTER_GATE) -> Run:
        """Start a DAG run on the query; its task waits for an epoch behind the gate."""
        run = self.world.run(dag_id, self.query.params(epoch))
        self.runs.append(run)
        return run

    def end(self) -> None:
        """Leave nothing to the next scenario."""
        try:
            for run in self.runs:
                run.end()
        finally:
            self.query.end()

    def promise(self, run: Run, task_id: str, state: str, count: int = 1) -> None:
        """The task will be in this state, as often as it has mapped instances."""
        try:
            run.wait(task_id, state, count)
        except AirflowApiError:
            got = sorted({str(state) for state in run.states(task_id)})
            log = run.airflow.log(run.dag_id, run.run_id, task_id, max(1, run.attempts(task_id)))
            self._wrong(f"{run.dag_id}.{task_id} is {', '.join(got)}, not {state}\n{log}")
        states = sorted({str(state) for state in run.states(task_id)})
        self.outcome.task = ", ".join(states) + (f" x {count}" if count > 1 else "")

    def promise_result(self, run: Run, task_id: str, query_run_id: str | None) -> None:
        """The task returns this run of the query."""
        got = run.airflow.xcom(run.dag_id, run.run_id, task_id)["run_id"]
        if got != query_run_id:
            self._wrong(f"{run.dag_id}.{task_id} returned run {got}, not {query_run_id}")

    def promise_attempts(self, run: Run, task_id: str, most: int) -> None:
        """The task was tried no more often than this."""
        attempts = run.attempts(task_id)
        if attempts > most:
            self._wrong(f"{run.dag_id}.{task_id} was tried {attempts} times, not {most}")

    def promise_submissions(self, count: int) -> None:
        """The query was submitted so often, whether or not it came to run."""
        submitted = len(list(self.query.logs.glob("*.log")))
        if submitted != count:
            self.outcome.duplicates += 1
            self.outcome.broken.append(f"it was submitted {submitted} times, not {count}")

    def promise_same_run(self, query_run_id: str | None) -> None:
        """The query was never started anew."""
        now = self.query.status().run_id
        if now != query_run_id:
            self.outcome.duplicates += 1
            self.outcome.broken.append(f"run {query_run_id} was replaced by {now}")

    def promise_each_once(self, epochs: list[int]) -> None:
        """These are all epochs from the first one on, each once."""
        if epochs != list(range(len(epochs))):
            self._wrong(f"the epochs told are {epochs}")

    def settle(self, queries: int, standbys: int = 0) -> None:
        """Judge who is left: so many queries, 1 or 0, that go on, as many that stand by for it, and
        nobody else."""

        def looks_right() -> bool:
            pids = {process.pid for process in self.query.processes()}
            return len(pids) == queries + standbys and not self.world.strangers(pids)

        with suppress(AirflowApiError):  # who is wrong is told below, one by one
            wait_for(looks_right, _SETTLE_S, "the processes to settle")
        alive = self.query.processes()
        waiting = {each.pid for each in standing_by(self.query.checkpoint.storage)}
        if len(waiting) != standbys:
            self.outcome.broken.append(f"{len(waiting)} stand by, not {standbys}")
        if standbys:
            alive = [process for process in alive if process.pid not in waiting]
        self.outcome.queries = len(alive)
        holder = self.query.status()
        if queries == 1 and holder.pid not in {process.pid for process in alive}:
            self.outcome.broken.append(f"no query runs: {holder.state} {holder.error or ''}")
        elif queries == 1:
            self.query.open_gate()
            self.query.goes_on()
        for process in alive:
            if process.pid == holder.pid and queries == 1:
                continue
            self._count(process, duplicate=queries == 1)
        for process in self.world.strangers({process.pid for process in alive} | waiting):
            self._count(process, duplicate=False)
        for found in self.query.interleaved():
            self.outcome.duplicates += 1
            self.outcome.broken.append(found)

    def _count(self, process: psutil.Process, duplicate: bool) -> None:
        kind = "duplicate" if duplicate else "orphan"
        if duplicate:
            self.outcome.duplicates += 1
        else:
            self.outcome.orphans += 1
        self.outcome.broken.append(f"{kind}: {_describe(process)}")

    def _wrong(self, found: str) -> None:
        self.outcome.wrong_states += 1
        self.outcome.broken.append(found)


def _describe(process: psutil.Process) -> str:
    try:
        return f"process {process.pid}, {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return f"process {process.pid}, which has ended since"


@dataclass(frozen=True)
class Scenario:
    """:param name: in words.
    :param play: does it, and promises.
    :param short: whether it belongs to the short form.
    :param two_triggerers: whether it needs them, and so PostgreSQL.
    """

    name: str
    play: Callable[[Case], None]
    short: bool = False
    two_triggerers: bool = False


def judge(scenario: Scenario, world: World, folder_name: str) -> Outcome:
    """Play a scenario and judge it; whatever happens, its query is gone afterwards."""
    began = time.monotonic()
    case = Case(scenario.name, world, Query(world.folder / folder_name))
    outcome = case.outcome
    if scenario.two_triggerers and world.database != "PostgreSQL":
        outcome.skipped = f"two triggerers need PostgreSQL, not {world.database}"
        return outcome
    steps: tuple[Callable[[], None], ...] = (partial(scenario.play, case), case.end)
    for step in steps:
        try:
            step()
        except (AirflowApiError, ContinuousError, psutil.Error) as error:
            outcome.broken.append(f"{type(error).__name__}: {error}")
    outcome.seconds = time.monotonic() - began
    return outcome
