"""Which tasks have told of which queries, as Airflow's database has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models import import_all_models
from airflow.models.xcom import XComModel
from sqlalchemy import create_engine, insert
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session

from airflow_provider_continuous.observing.resolving import RESOLVER
from airflow_provider_continuous.plugins import owners, queries
from airflow_provider_continuous.plugins.owners import of_every_dag, told_owners
from airflow_provider_continuous.tasks.query_note import KEY
from airflow_provider_continuous.view.known import KnownQuery
from airflow_provider_continuous.view.roots import resolved_all

_NUMBERS = count(1)
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """With Airflow's table of XComs, and nothing else."""
    engine = create_engine(f"sqlite:///{tmp_path}/airflow.db")
    import_all_models()  # type: ignore[no-untyped-call]  # which its foreign keys name
    XComModel.__table__.create(engine)

    @contextmanager
    def session() -> Iterator[Session]:
        with Session(engine) as made:
            yield made

    monkeypatch.setattr("airflow.utils.session.create_session", session)
    yield engine
    engine.dispose()


def tell(
    database: Engine,
    dag_id: str,
    runs: range,
    *,
    task_id: str = "run",
    value: Any = None,
    key: str = KEY,
) -> None:
    """Each of these runs of a DAG tells of its query; a run is as many minutes after the first."""
    with database.begin() as writes:
        writes.execute(
            insert(XComModel.__table__),
            [
                {
                    "dag_run_id": next(_NUMBERS),
                    "dag_id": dag_id,
                    "task_id": task_id,
                    "run_id": f"run-{run}",
                    "map_index": -1,
                    "key": key,
                    "value": value or {"checkpoint_location": f"/data/{dag_id}"},
                    "timestamp": BEGAN + timedelta(minutes=run),
                }
                for run in runs
            ],
        )


def test_a_task_that_tells_often_hides_no_other(
    database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "OWNERS_MAX", 10)
    tell(database, "always-on", range(1))
    tell(database, "each-minute", range(1, 40))
    tell(database, "each-minute-too", range(1, 40))

    found = told_owners().owners

    assert len(found) == 10
    assert [each.run_id for each in found if each.dag_id == "always-on"] == ["run-0"]
    newest = [each.run_id for each in found if each.dag_id == "each-minute"]
    assert newest in ([f"run-{run}" for run in range(39, 39 - some, -1)] for some in (4, 5))


def test_the_newest_come_first_and_what_is_none_of_ours_is_left_out(database: Engine) -> None:
    tell(database, "a", range(2))
    tell(database, "b", range(1, 2), value={"checkpoint_location": ["no", "text"]})
    tell(database, "c", range(3, 4))
    tell(database, "d", range(4, 5), key="return_value")

    found = told_owners().owners

    assert [(each.dag_id, each.run_id) for each in found] == [
        ("c", "run-3"), ("a", "run-1"), ("a", "run-0")
    ]  # fmt: skip
    assert found[0].location == "/data/c"
    assert found[0].started_at_ms == round((BEGAN + timedelta(minutes=3)).timestamp() * 1000)


def test_who_has_told_less_lately_keeps_its_right(
    database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of notes by one DAG does not make it the only owner of another one's query."""
    monkeypatch.setattr(owners, "OWNERS_MAX", 2)
    monkeypatch.setattr(queries, "shown_roots", lambda problems: [])
    monkeypatch.setattr(RESOLVER, "places", resolved_all)
    monkeypatch.setattr(KnownQuery, "open", lambda query: SimpleNamespace(exists=lambda: True))
    tell(database, "payroll", range(3))
    for number in range(1, 9):
        tell(
            database, "flood", range(10 * number, 10 * number + 3), task_id=f"run-{number}",
            value={"checkpoint_location": f"/data/flood-{number}"},
        )  # fmt: skip
    tell(database, "flood", range(100, 101), value={"checkpoint_location": "/data/payroll"})

    found = queries.find_query("/data/payroll")

    assert [(each.dag_id, each.run_id) for each in found.owners] == [
        ("flood", "run-100"), ("payroll", "run-2")
    ]  # fmt: skip
    assert told_owners().is_cut


def test_locations_that_differ_in_case_are_two(database: Engine) -> None:
    for location in ("/data/q", "/data/Q"):
        tell(database, "a", range(2), value={"checkpoint_location": location})

    assert {each.location for each in of_every_dag()} == {"/data/q", "/data/Q"}
    assert not told_owners().is_cut
