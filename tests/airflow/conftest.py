"""Airflow for tests: a home of its own, set before anything imports airflow."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

_HOME = tempfile.TemporaryDirectory(prefix="airflow-unit-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["CONTINUOUS_DEMO_DIR"] = f"{_HOME.name}/demo"  # where the example DAGs put things

from airflow_provider_continuous import deferral  # noqa: E402
from airflow_provider_continuous.compat import RELEASE  # noqa: E402
from airflow_provider_continuous.deploy import processes, submission  # noqa: E402
from airflow_provider_continuous.deploy.submitted import SubmittedQuery  # noqa: E402
from airflow_provider_continuous.hooks.query import ContinuousQueryHook  # noqa: E402
from airflow_provider_continuous.observing import listing  # noqa: E402
from airflow_provider_continuous.operators.query import base  # noqa: E402
from airflow_provider_continuous.tasks import killing, memory  # noqa: E402
from airflow_provider_continuous.tasks.killing import TaskIdentity  # noqa: E402
from tests.airflow.live_checkpoint import LiveCheckpoint  # noqa: E402
from tests.airflow.submitting import Submitting  # noqa: E402

Says = Callable[[str | None], list[TaskIdentity]]
# Epochs as asset events need Airflow 3.3.
_OF_EVENTS = ["test_assets.py", "test_event_trigger.py", "test_period_trigger.py"]
collect_ignore = _OF_EVENTS if RELEASE < (3, 3) else []


class FakeStore(dict[str, Any]):
    """Airflow's task state store, of one task, in memory."""

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        assert value is not None
        self[key] = value


@pytest.fixture
def context() -> Any:
    """The part of a task's context that the provider uses: the first attempt of a new task."""
    task_instance = SimpleNamespace(
        dag_id="a_dag",
        task_id="a_task",
        run_id="a_run",
        map_index=-1,
        try_number=1,
        max_tries=2,
        task=SimpleNamespace(outlets=[]),
        get_first_reschedule_date=lambda _: None,
    )
    task_instance.pushed = {}
    task_instance.xcom_push = task_instance.pushed.__setitem__
    return {"ti": task_instance, "run_id": "a_run", "task_state_store": FakeStore()}


@pytest.fixture(autouse=True)
def defer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks do not linger in the worker before they defer, but for a start, however long it takes:
    what they wait for behind it is what is tested."""
    monkeypatch.setattr(deferral, "LINGER_S", 0.0)
    monkeypatch.setattr(base, "START_LINGER_S", 120.0)


@pytest.fixture(autouse=True)
def tasks_are_new() -> None:
    """Each test begins in a process of its own, as each task does."""
    memory.forget_process()


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """What a test that has failed leaves running would be in the way of others."""
    before = set(processes._children)
    yield
    for pid, child in processes._children.items():
        if pid not in before and child.poll() is None:
            os.killpg(pid, signal.SIGKILL)  # each leads a session of its own
            child.wait()


@pytest.fixture
def live(tmp_path: Path) -> LiveCheckpoint:
    """A checkpoint that the test writes."""
    return LiveCheckpoint(tmp_path / "checkpoint")


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    """A small query."""
    return {
        "name": "numbers",
        "source": {"format": "rate", "options": {"rowsPerSecond": "10"}},
        "sql": "SELECT value FROM source",
        "sink": {"format": "noop"},
        "trigger": {"continuous": "1 second"},
        "checkpoint_location": str(tmp_path / "checkpoints" / "numbers"),
    }


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes connections."""

    def make(name: str, conn_type: str, **content: Any) -> None:
        said = json.dumps({"conn_type": conn_type, **content})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", said)

    return make


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries run in real processes, but in ``stand_in.py`` instead of Spark."""
    script = str(Path(__file__).with_name("stand_in.py"))
    monkeypatch.setattr(submission, "ENGINE", (sys.executable, script))


@pytest.fixture
def patient_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of queries takes as long as it takes: nothing is left out of it for that."""
    monkeypatch.setattr(listing, "LISTED_WITHIN_S", 120.0)
    for listed in (listing.QueryListing.below, listing.QueryListing.at):
        monkeypatch.setattr(listed, "__defaults__", (120.0,))


@pytest.fixture
def patient_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start takes as long as it takes: a task's timeout cuts short what comes behind it."""
    started = ContinuousQueryHook.started_within
    monkeypatch.setattr(
        ContinuousQueryHook,
        "started_within",
        lambda hook, submitted, *_: started(hook, submitted, 120.0, math.inf),
    )


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, stand_in: None) -> Iterator[list[SubmittedQuery]]:
    """Every process that was started; none is left at the end."""
    started: list[SubmittedQuery] = []
    really_submit = ContinuousQueryHook.submit

    def submit(hook: ContinuousQueryHook, *given: Any) -> SubmittedQuery:
        started.append(really_submit(hook, *given))
        return started[-1]

    monkeypatch.setattr(ContinuousQueryHook, "submit", submit)
    yield started
    for query in started:
        query.process.terminate()
        query.process.send_signal(signal.SIGCONT)  # a test that has failed may have suspended it
        query.process.wait()


@pytest.fixture
def submitting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submitting:
    """Queries are submitted to a cluster, by a script."""
    (tmp_path / "bin").mkdir()
    return Submitting(monkeypatch, tmp_path / "bin")


@pytest.fixture
def airflow_says(monkeypatch: pytest.MonkeyPatch) -> Says:
    """Airflow's answer; None: no answer. Returns which tasks were asked for."""

    def says(state: str | None) -> list[TaskIdentity]:
        asked: list[TaskIdentity] = []

        def answer(task: TaskIdentity) -> str:
            asked.append(task)
            if state is None:
                raise ConnectionError("the api-server is down")
            return state

        monkeypatch.setattr(killing, "task_state", answer)
        return asked

    return says
