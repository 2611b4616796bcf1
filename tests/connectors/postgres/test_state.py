"""A query with state into a table: the newest count of each key, whatever dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.pipeline.stateful import UPDATE
from engine.query.binding import bind_writer
from engine.state.snapshots import SnapshotWriter
from tests.connectors.postgres.queries import read, writer
from tests.servers.postgresql import PostgreSQL
from tests.simulation.counting import BEGAN_S, COUNTS, CountStory, counted
from tests.simulation.story import WAIT_S

RETRIED = {"retry_storage_for_ms": 60_000, "restart_delay_ms": 1}


def test_counts_in_mode_update_replace_each_other(
    postgresql: PostgreSQL, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{schema}.counts"
    story = CountStory(tmp_path / "checkpoint")
    prepare, died = SnapshotWriter.prepare, []

    def die_twice(self: SnapshotWriter, *arguments: Any) -> Any:
        if len(died) < 2 and story.records > 15 * (len(died) + 1):
            died.append(story.records)
            raise OSError("killed behind its rows, in front of its state")
        return prepare(self, *arguments)

    monkeypatch.setattr(SnapshotWriter, "prepare", die_twice)
    for records in (40, 10):
        sink = writer(postgresql, table, COUNTS, mode="upsert", keyColumns="key,at")
        story.binding = bind_writer(sink, "postgres")
        query = story.start(output_mode=UPDATE, **RETRIED)
        story.grow(query, records)
        query.processAllAvailable()
        assert query.drain(WAIT_S)
    assert len(died) >= 2
    seconds = f"extract(epoch from at)::bigint - {BEGAN_S}"
    rows = read(postgresql, f"SELECT key, {seconds}, count FROM {table}")
    assert {(key, at): count for key, at, count in rows} == counted(story.records, 2)
