"""What the scenarios would find: each kind of broken promise, made on purpose, is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.local_airflow.rest import wait_for
from tests.airflow_faults.case import Case, Scenario, judge
from tests.airflow_faults.query import Query
from tests.airflow_faults.result import Outcome, summary, table
from tests.airflow_faults.world import World

Start = Callable[..., None]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A case without an Airflow: whatever runs is started by the test."""
    return Case("a case", World(tmp_path, sensors=0), Query(tmp_path / "query"))


@pytest.fixture
def started(case: Case) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that the test has started; they end with it."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    case.query.end()
    for process in processes:
        process.wait()


@pytest.fixture
def start(case: Case, started: list[subprocess.Popen[bytes]]) -> Start:
    """Starts the query's process."""
    return lambda name, behaviour=None: started.append(start_process(case, name, behaviour))


def start_process(case: Case, name: str, behaviour: str | None) -> subprocess.Popen[bytes]:
    """Start the query's process, as the provider does."""
    case.query.logs.mkdir(exist_ok=True)
    spec = case.query.logs / f"{name}.spec.json"
    conf = {"gate": str(case.query.gate), "stand_in": behaviour}
    spec.write_text(json.dumps({"checkpoint_location": case.query.checkpoint.url, "conf": conf}))
    spec.chmod(0o600)
    environment = case.world.processes.environment()
    with (case.query.logs / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, environment["AIRFLOW_FAULTS_ENGINE"], "run", str(spec)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )


def test_one_query_that_goes_on_is_right(case: Case, start: Start) -> None:
    start("first")
    case.query.wait_until_running()

    case.settle(queries=1)

    assert (case.outcome.passed, case.outcome.queries) == (True, 1)


def test_a_second_process_is_a_duplicate(
    case: Case, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.airflow_faults.case._SETTLE_S", 0.0)
    start("first")
    case.query.wait_until_running()
    start("second", "hang")
    wait_for(lambda: len(case.query.processes()) == 2, 120, "the second process")

    case.settle(queries=1)

    assert (case.outcome.duplicates, case.outcome.orphans) == (1, 0)
    assert not case.outcome.passed


def test_a_query_that_should_have_ended_is_an_orphan(
    case: Case, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.airflow_faults.case._SETTLE_S", 0.0)
    start("first")
    case.query.wait_until_running()

    case.settle(queries=0)

    assert (case.outcome.duplicates, case.outcome.orphans) == (0, 1)


def test_a_process_that_nobody_answers_for_is_an_orphan(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.airflow_faults.case._SETTLE_S", 0.0)
    left = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env=case.world.processes.environment(),
    )
    # The system shows the environment of a program a moment after it has started.
    wait_for(lambda: case.world.strangers(set()), 120, "the process")

    case.settle(queries=0)

    left.communicate()
    assert (case.outcome.duplicates, case.outcome.orphans) == (0, 1)
    assert str(left.pid) in case.outcome.broken[0]


def test_a_query_that_is_gone_is_missed(
    case: Case, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.airflow_faults.case._SETTLE_S", 0.0)
    start("first")
    case.query.wait_until_running()
    case.query.end()

    case.settle(queries=1)

    assert "no query runs: LOST" in table([case.outcome])


def test_epochs_of_two_runs_at_once_are_seen(tmp_path: Path) -> None:
    query = Query(tmp_path / "query")
    query.logs.mkdir()
    first, second = query.logs / "first.log", query.logs / "second.log"
    first.write_text("committed 0 generation 0\ncommitted 1 generation 0\n")
    second.write_text("committed 2 generation 1\n")
    assert query.interleaved() == []

    first.write_text(first.read_text() + "committed 2 generation 0\ncommitted 3 generation 0\n")

    assert query.interleaved() == [
        "epoch 2 was committed twice",
        "generation 0 committed epoch 3 after 1 had",
    ]


def test_a_scenario_that_cannot_go_on_is_broken(tmp_path: Path) -> None:
    def play(case: Case) -> None:
        wait_for(lambda: False, 0, "what never comes")

    outcome = judge(Scenario("a scenario", play), World(tmp_path, sensors=0), "query")

    assert "what never comes" in outcome.broken[0]
    assert summary([outcome])["passed"] == 0


def test_what_needs_two_triggerers_says_so(tmp_path: Path) -> None:
    scenario = Scenario("suspended", lambda case: None, two_triggerers=True)

    outcome = judge(scenario, World(tmp_path, sensors=0), "query")

    assert outcome.skipped == "two triggerers need PostgreSQL, not SQLite"
    counted = summary([outcome, Outcome("another")])
    assert (counted["scenarios"], counted["passed"], counted["skipped"]) == (1, 1, 1)
