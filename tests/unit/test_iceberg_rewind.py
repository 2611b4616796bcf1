"""Epochs of an Iceberg table that are taken back, or cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.sinks.lakes import upkeep
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from engine.sinks.reopen import reopen_sink
from tests.unit.iceberg_tables import Lake
from tests.unit.lake_queries import QUERY, rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


def rewound(lake: Lake, to: int, generation: int, timeline: int | None = None) -> None:
    """As a rewind does it: the sink is reopened without its query.

    :param timeline: of the runs before; else whoever finishes it is a start.
    """
    sink = reopen_sink("iceberg", lake.options)
    sink.checkRewind(to)
    own = generation if timeline is None else timeline
    sink.bind(SinkContext(QUERY, "rewind", generation, own))
    sink.checkRewind(to)
    sink.rewind(to)
    sink.rewind(to)


def test_epochs_are_taken_back_and_come_again_with_other_rows(lake: Lake) -> None:
    query, other = lake.query(partitionSpec="bucket(2, id)"), lake.query(query_id="other")
    for epoch in range(4):
        query.commit(epoch, rows(epoch, 50 + epoch))
        other.commit(epoch, rows(100 + epoch))
    others = [100, 101, 102, 103]
    rewound(lake, 1, generation=1)
    assert lake.ids() == [0, 1, 50, 51, *others]
    again = lake.query(generation=2, timeline=1, logged=1)
    assert again.latest == 1
    for epoch in (2, 3, 4):
        again.commit(epoch, rows(10 + epoch))
    rewound(lake, 2, generation=3)
    assert lake.ids() == [0, 1, 12, 50, 51, *others]
    rewound(lake, 0, generation=4)
    assert lake.ids() == [0, 50, *others]
    rewound(lake, -1, generation=5)
    assert lake.ids() == others
    assert lake.query(generation=6, timeline=5).latest is None


def test_rows_that_others_have_deleted_stay_deleted(lake: Lake) -> None:
    query = lake.query()
    query.commit(0, rows(0, 1))
    lake.table.delete("id = 1")
    query.commit(1, rows(2))
    rewound(lake, 0, generation=1)
    assert lake.ids() == [0]


def test_what_was_rewritten_since_is_not_taken_back(lake: Lake) -> None:
    query = lake.query()
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    rewound(lake, 2, generation=1)
    lake.table.overwrite(lake.table.scan().to_arrow())  # as a compaction
    with pytest.raises(ConfigError, match=r"files of epoch 2 .* were rewritten"):
        rewound(lake, 1, generation=2)
    rewound(lake, 2, generation=3)
    assert lake.ids() == [0, 1, 2]


def test_snapshots_that_have_expired_are_not_guessed(lake: Lake) -> None:
    query = lake.query()
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    table = lake.table
    old = [each.snapshot_id for each in table.snapshots()][:2]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    with pytest.raises(ConfigError, match="does not reach back to epoch 0"):
        rewound(lake, 0, generation=1)
    rewound(lake, 2, generation=1)
    assert lake.ids() == [0, 1, 2]


@pytest.mark.parametrize("is_pinned", [False, True])
def test_what_the_table_tells_of_a_query_is_not_forgotten_by_a_start(
    lake: Lake, is_pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That shuts out earlier runs, for they have left files."""
    monkeypatch.setattr(upkeep, "RETAIN_MIN_S", 0.0)
    query = lake.query()
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    rewound(lake, 2, generation=1, timeline=0)
    lake.query(generation=2, timeline=1, logged=2).prepare(3, rows(13))
    lake.query(generation=3, timeline=1, logged=2)
    orders = Orders(rewindable_s=0.0, retain_s=0.0, pinned={QUERY: 1} if is_pinned else {})
    maintain(table_of("iceberg", lake.options), orders)
    if not is_pinned:
        with pytest.raises(ConfigError, match="does not reach back to epoch 1"):
            rewound(lake, 1, generation=4)
        assert lake.ids() == [0, 1, 2]
        return
    rewound(lake, 1, generation=4)
    assert lake.ids() == [0, 1]


def test_no_table_no_rewind(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="there is no Iceberg table"):
        rewound(lake, 1, generation=1)


def test_a_history_that_is_gone_is_not_needed_where_nothing_came_later(lake: Lake) -> None:
    lake.query().commit(0, rows(0))
    lake.query(query_id="other").commit(0, rows(10))
    table = lake.table
    old = [each.snapshot_id for each in table.snapshots()][:1]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    rewound(lake, 1, generation=1)
    assert lake.ids() == [0, 10]
