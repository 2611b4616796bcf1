"""The operator that looks after tables."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.operators.table import MaintainTableOperator
from engine.checkpoint.fingerprint_file import write_fingerprint
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.unit.delta_tables import ids, writer
from tests.unit.lake_queries import Query, rows


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    query = Query(writer(folder))
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    return folder


def run(context: Any, **arguments: Any) -> dict[str, Any]:
    """The operator's result, which is JSON."""
    task = MaintainTableOperator(task_id="maintain", **arguments)
    assert all(hasattr(task, field) for field in task.template_fields)
    result = task.execute(context)
    assert json.loads(json.dumps(result)) == result
    return result


def test_a_table_is_named_as_in_a_query(table: Path, context: Any) -> None:
    named = {"format": "delta", "options": {"path": str(table)}}
    dry = run(context, table=named, rewindable=0, dry_run=True)
    assert (dry["compacted_files"], dry["files_after"], dry["dry_run"]) == (4, 4, True)
    done = run(context, table=named, rewindable=timedelta(0), retain=timedelta(days=2))
    assert (done["files_before"], done["files_after"]) == (4, 1)
    assert ids(table) == [0, 1, 2, 3]
    assert run(context, table=named, compact=False, expire=False)["files_after"] == 1


def test_checkpoints_tell_the_table_and_what_is_pinned(
    table: Path, live: LiveCheckpoint, context: Any
) -> None:
    query = Query(writer(table), query_id=str(live.checkpoint.query_id()))
    live.hold()
    live.commit(*range(4))
    for epoch in range(4):
        query.commit(epoch, rows(10 + epoch))
    parts = {"sink": {"format": "delta", "options": {"path": str(table)}}}
    write_fingerprint(live.checkpoint.storage, parts)
    live.checkpoint.pin("before", 1)
    done = run(context, checkpoint_location=[live.location], rewindable=0, vacuum=False)
    assert (done["files_before"], done["compacted_files"], done["files_after"]) == (8, 6, 3)
    other = {"format": "delta", "options": {"path": str(table.with_name("other"))}}
    with pytest.raises(AirflowFailException, match=r"writes to delta\[path=.*table\], not to"):
        run(context, checkpoint_location=live.location, table=other)
    live.checkpoint.unpin("before")
    assert run(context, checkpoint_location=live.location, rewindable=0)["files_after"] == 1
    assert ids(table) == [0, 1, 2, 3, 10, 11, 12, 13]


@pytest.mark.parametrize("rendered", ["", []])
def test_pins_do_not_go_because_no_template_has_found_their_checkpoint(
    table: Path, context: Any, rendered: Any
) -> None:
    named = {"format": "delta", "options": {"path": str(table)}}
    task = MaintainTableOperator(
        task_id="maintain", table=named, checkpoint_location="{{ what }}", rewindable=0
    )
    task.checkpoint_location = rendered

    with pytest.raises(AirflowFailException, match=r"checkpoint_location is .*names no checkpoint"):
        task.execute(context)

    assert run(context, table=named, rewindable=0, dry_run=True)["files_before"] == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "give table, checkpoint_location or both"),
        ({"table": {}, "compact": False, "expire": False, "vacuum": False}, "give compact"),
    ],
)
def test_what_is_asked_for_is_checked_when_the_dag_is_read(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        MaintainTableOperator(task_id="maintain", **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"table": {"options": {}}}, "names no format"),
        ({"table": {"format": "parquet", "options": {}}}, "has no table that could be"),
        ({"table": {"format": "delta", "options": {"path": "/nowhere/at/all"}}}, "no Delta table"),
        ({"table": {"format": "delta", "connection": "no_such_lake"}}, "no_such_lake"),
        ({"checkpoint_location": "/nowhere/at/all"}, "There is no checkpoint at /nowhere"),
        ({"table": {"format": "delta"}, "file_bytes": "many"}, "file_bytes is 'many'"),
        ({"table": {"format": "delta"}, "retain": 60}, "it must be 3600 s or more"),
        (
            {"table": {"format": "delta"}, "compact": False, "expire": False, "rewindable": 0},
            "goes by it: it is for compact and expire",
        ),
    ],
)
def test_what_cannot_be_fails_for_good(arguments: dict[str, Any], text: str, context: Any) -> None:
    with pytest.raises(AirflowFailException, match=text):
        run(context, **arguments)
