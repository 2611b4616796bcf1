"""``maintain`` on the tables that checkpoints tell."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from engine.sinks.lakes.upkeep import REWINDABLE_S, Orders
from tests.unit.delta_tables import ids, writer
from tests.unit.lake_queries import Query, rows
from tests.unit.test_cli import Captured, called, called_json
from tests.unit.test_cli_rewind import record_sink, spark_checkpoint

__all__ = ["spark_checkpoint"]


@pytest.fixture
def table(tmp_path: Path, spark_checkpoint: Path) -> Path:
    """Of four files, one for each epoch; the checkpoint's query writes to it."""
    folder = tmp_path / "table"
    query = Query(writer(folder))
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    record_sink(spark_checkpoint, "delta", path=str(folder))
    return folder


def test_a_table_is_maintained(table: Path, spark_checkpoint: Path, capsys: Captured) -> None:
    code, found = called_json(capsys, "maintain", spark_checkpoint, "--rewindable", "0 s")
    assert code == 0
    assert (found["files_before"], found["files_after"]) == (4, 1)
    assert (found["compacted_files"], found["compacted_into"]) == (4, 1)
    assert found["expired"] == 0
    assert ids(table) == [0, 1, 2, 3]


def test_a_dry_run_changes_nothing(table: Path, spark_checkpoint: Path, capsys: Captured) -> None:
    before = sorted(table.rglob("*"))
    code, out, _ = called(
        capsys, "maintain", spark_checkpoint, "--rewindable", "0 s", "--dry-run", "--compact"
    )
    assert code == 0
    assert "4 of 4 files would be compacted into 1" in out
    assert sorted(table.rglob("*")) == before


def test_young_files_stay_by_default(table: Path, spark_checkpoint: Path, capsys: Captured) -> None:
    _, found = called_json(capsys, "maintain", spark_checkpoint)
    assert (found["compacted_files"], found["files_after"]) == (0, 4)


def test_the_specification_names_a_table_with_secrets(
    tmp_path: Path, table: Path, spark_checkpoint: Path, capsys: Captured
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: n\nsource: {format: rate}\nsql: SELECT value FROM source\n"
        "trigger: {continuous: 1 second}\ncheckpoint_location: /tmp/c\n"
        f"sink: {{format: delta, options: {{path: {table}, targetFileSize: 1}}}}\n"
    )
    code, found = called_json(
        capsys, "maintain", spark_checkpoint, "--spec", spec, "--rewindable", "0 s"
    )
    assert (code, found.get("files_after")) == (0, 4), found


def test_the_specification_of_another_table_is_refused(
    tmp_path: Path, table: Path, spark_checkpoint: Path, capsys: Captured
) -> None:
    """Its queries, and their pins, would not be known."""
    other = tmp_path / "other"
    Query(writer(other)).commit(0, rows(1))
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "source: {format: rate}\ncheckpoint_location: /tmp/c\n"
        f"sink: {{format: delta, options: {{path: {other}}}}}\n"
    )
    code, _, err = called(capsys, "maintain", spark_checkpoint, "--spec", spec)
    assert code == 2
    assert f"writes to delta[path={table}], not to delta[path={other}]" in err


@pytest.mark.parametrize(
    ("sink", "given", "text"),
    [
        ("noop", [], "The sink noop has no table"),
        ("delta", ["--retain", "1 minute"], "it must be 3600 s or more"),
        ("delta", ["--retain", "soon"], "--retain: 'soon' cannot be used"),
        ("delta", ["--vacuum", "--file-bytes", "9"], "file_bytes says how large files should be"),
        ("delta", ["--compact", "--retain", "2 days"], "goes by it: it is for expire and vacuum"),
        ("delta", ["--vacuum", "--rewindable", "0 s"], "goes by it: it is for compact and expire"),
    ],
)
def test_what_cannot_be_is_refused(
    sink: str,
    given: list[str],
    text: str,
    table: Path,
    spark_checkpoint: Path,
    capsys: Captured,
) -> None:
    record_sink(spark_checkpoint, sink, path=str(table))
    code, _, err = called(capsys, "maintain", spark_checkpoint, *given)
    assert code == 2
    assert text in err


def test_one_step_that_goes_by_a_setting_is_enough() -> None:
    assert Orders(expire=False, vacuum=False, rewindable_s=0.0, file_bytes=9).reach_s == 0
    assert Orders(compact=False, vacuum=False, rewindable_s=1.0, retain_s=4e3).reach_s == 1
    assert Orders(compact=False, expire=False, retain_s=4e3).reach_s == REWINDABLE_S


def test_a_checkpoint_that_tells_no_sink(spark_checkpoint: Path, capsys: Captured) -> None:
    code, _, err = called(capsys, "maintain", spark_checkpoint)
    assert code == 2
    assert "does not tell which sink its query has" in err
