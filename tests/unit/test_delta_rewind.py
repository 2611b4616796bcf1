"""Epochs of a Delta table that are taken back, or cannot be."""

from __future__ import annotations

import json
import string
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable, TableFeatures

from engine.checkpoint.sink_context import BoundContext
from engine.errors import ConfigError
from tests.unit.delta_tables import ids, writer
from tests.unit.lake_queries import QUERY, Query, rows


def rewound(folder: Path, to: int, generation: int) -> None:
    """As a rewind does it: the sink is reopened without its query."""
    from engine.checkpoint.sink_context import SinkContext
    from engine.sinks.reopen import reopen_sink

    sink = reopen_sink("delta", {"path": str(folder)})
    sink.checkRewind(to)
    sink.bind(SinkContext(QUERY, "rewind", generation, 0))
    sink.checkRewind(to)
    sink.rewind(to)
    sink.rewind(to)


def test_epochs_are_taken_back_and_come_again_with_other_rows(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    other = Query(writer(tmp_path), query_id="other")
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
        other.commit(epoch, rows(100 + epoch))
    rewound(tmp_path, 1, generation=1)
    assert ids(tmp_path) == [0, 1, 100, 101, 102, 103]
    again = Query(writer(tmp_path), generation=2, timeline=1, logged=1)
    assert again.latest is None
    for epoch in (2, 3, 4):
        again.commit(epoch, rows(10 + epoch))
    rewound(tmp_path, 2, generation=3)
    assert ids(tmp_path) == [0, 1, 12, 100, 101, 102, 103]
    rewound(tmp_path, 0, generation=4)
    assert ids(tmp_path) == [0, 100, 101, 102, 103]


def test_what_was_rewritten_since_is_not_taken_back(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    rewound(tmp_path, 2, generation=1)
    DeltaTable(str(tmp_path)).optimize.compact()
    with pytest.raises(ConfigError, match=r"files of epoch 2 .* were rewritten"):
        rewound(tmp_path, 1, generation=2)
    rewound(tmp_path, 2, generation=3)
    assert ids(tmp_path) == [0, 1, 2]


def test_an_append_only_table_is_not_taken_back(tmp_path: Path) -> None:
    Query(writer(tmp_path)).commit(0, rows(1))
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.appendOnly": "true"})
    again = Query(writer(tmp_path), generation=1, logged=0)
    again.commit(1, rows(2))
    with pytest.raises(ConfigError, match="is append-only"):
        rewound(tmp_path, 0, generation=2)
    assert ids(tmp_path) == [1, 2]


def test_a_history_that_is_gone_is_not_guessed(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(ConfigError, match="does not reach back to epoch 0"):
        rewound(tmp_path, 0, generation=1)
    rewound(tmp_path, 2, generation=1)
    assert ids(tmp_path) == [0, 1, 2]


def test_no_table_no_rewind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no Delta table"):
        rewound(tmp_path, 1, generation=1)


def test_what_is_taken_back_from_a_partition_tells_its_values(tmp_path: Path) -> None:
    query = Query(writer(tmp_path, __partition_by='["name"]'))
    for epoch in range(2):
        query.commit(epoch, rows(epoch))
    rewound(tmp_path, 0, generation=1)
    (removed,) = [each["remove"] for each in newest_with(tmp_path, "remove")]
    assert removed["partitionValues"] == {"name": "n1"}


def test_a_file_with_a_deletion_vector_is_not_taken_back(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    for epoch in range(2):
        query.commit(epoch, rows(2 * epoch, 2 * epoch + 1))
    delete_the_first_row(tmp_path)
    version = DeltaTable(str(tmp_path)).version()
    with pytest.raises(ConfigError, match=r"files of epoch 1 .* were rewritten.*DELETE"):
        rewound(tmp_path, 0, generation=1)
    assert DeltaTable(str(tmp_path)).version() == version


def newest_with(folder: Path, action: str) -> list[dict[str, Any]]:
    """The newest such actions of the table's log."""
    for log in sorted((folder / "_delta_log").glob("*.json"), reverse=True):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        if found := [each for each in actions if action in each]:
            return found
    return []


def delete_the_first_row(folder: Path) -> None:
    """Of the newest file, as Spark does it where ``delta.enableDeletionVectors`` is set."""
    (added,) = (each["add"] for each in newest_with(folder, "add"))
    table = DeltaTable(str(folder))
    table.alter.add_feature([TableFeatures.DeletionVectors], allow_protocol_versions_increase=True)
    # Magic number, one bitmap, its key; the bitmap: no runs, one container, of key 0 with one
    # value, at byte 16: 0.
    bitmap = struct.pack("<IQIIIHHIH", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 0)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(bitmap + b"\0\0"),
        "sizeInBytes": len(bitmap),
        "cardinality": 1,
    }
    removed = {**added, "deletionTimestamp": 1, "extendedFileMetadata": True}
    actions = ({"remove": removed}, {"add": {**added, "deletionVector": vector}})
    log = folder / "_delta_log" / f"{table.version() + 1:020}.json"
    log.write_text("".join(json.dumps(each) + "\n" for each in actions))
    assert pa.table(DeltaTable(str(folder)).deletion_vectors()).num_rows == 1


def z85(data: bytes) -> str:
    """As Delta's log has bytes: ZeroMQ's RFC 32."""
    digits = string.digits + string.ascii_letters + ".-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(digits[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))


@pytest.mark.parametrize("act", ["compact", "delete"])
def test_what_is_rewritten_in_the_middle_of_a_rewind_is_noticed(
    tmp_path: Path, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(writer(tmp_path))
    for epoch in range(3):
        query.commit(epoch, rows(epoch, 10 + epoch))
    create = DeltaTable.create_write_transaction

    def meanwhile(*args: Any, **options: Any) -> None:
        monkeypatch.undo()
        table = DeltaTable(str(tmp_path))
        table.optimize.compact() if act == "compact" else table.delete("id = 12")
        create(*args, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", meanwhile)
    with pytest.raises(ConfigError, match=r"files of epoch [12] .* were rewritten"):
        rewound(tmp_path, 0, generation=1)
    assert ids(tmp_path) == ([0, 1, 2, 10, 11, 12] if act == "compact" else [0, 1, 2, 10, 11])


def test_a_history_that_is_gone_is_not_needed_where_nothing_came_later(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    query.commit(0, rows(0))
    Query(writer(tmp_path), query_id="other").commit(0, rows(10))
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(2):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    rewound(tmp_path, 1, generation=1)
    assert ids(tmp_path) == [0, 10]
    # As whoever finishes it when its process has died.
    sink = writer(tmp_path)
    sink.bind(BoundContext(QUERY, "run", 2, 1))
    sink.rewind(1)
    assert ids(tmp_path) == [0, 10]


@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_a_table_whose_history_cannot_be_read_is_not_rewound(tmp_path: Path, name: str) -> None:
    """Delta's client finds none there, and nothing tells that files were rewritten."""
    query = Query(writer(tmp_path / name))
    query.commit(0, rows(1))
    query.commit(1, rows(2))
    DeltaTable(str(tmp_path / name)).optimize.compact()
    query.sink.rewind(1)  # nothing came later
    with pytest.raises(ConfigError, match="its history does not reach back to epoch 0"):
        query.sink.checkRewind(0)
    with pytest.raises(ConfigError, match="its history does not reach back to epoch 0"):
        query.sink.rewind(0)
    assert ids(tmp_path / name) == [1, 2]
