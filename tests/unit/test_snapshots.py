"""Snapshots against a dictionary: whatever was written, what is read is what was there."""

from __future__ import annotations

import math
import pickle
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.background import Later, at_once
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointCorruptError, CheckpointVersionError, ConfigError
from engine.exchange.key_groups import groups_of
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName
from engine.state import files, snapshots
from engine.state.chains import Chain
from engine.state.contract import StatefulStage, StateTable
from engine.state.restoring import read_tables, restore
from engine.state.snapshots import SnapshotWriter

GROUPS = 8
Key = tuple[Any, ...]
Rows = dict[Key, Key]


def group_of(key: Key) -> int:
    return sum(repr(key).encode()) % GROUPS


class Shelf(StatefulStage):
    """A stage that keeps what it is told to, and tells what it was restored with."""

    def __init__(self, table: StateTable, name: str = "shelf") -> None:
        self.name = name
        self.table = table
        self.rows: Rows = {}
        self.changed: dict[Key, None] = {}

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (self.table,)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches

    def put(self, key: Key, value: Key) -> None:
        self.rows[key] = value
        self.changed[key] = None

    def drop(self, key: Key) -> None:
        if self.rows.pop(key, None) is not None:
            self.changed[key] = None

    def close(self, watermark_ms: int) -> None:
        """Silently, as the contract has it."""
        self.rows = open_rows(self.table, self.rows, watermark_ms)

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        assert not self.rows
        assert set(tables) <= {self.table.name}
        for table in tables.values():
            assert table.schema == self.table.stored
            for _, gone, *row in rows_of(table):
                assert not gone
                key = tuple(row[: self.table.keys])
                assert key not in self.rows
                self.rows[key] = tuple(row[self.table.keys :])

    def changes(self, *, whole: bool) -> Mapping[str, pa.Table]:
        keys = list(self.rows if whole else self.changed)
        self.changed = {}
        width = len(self.table.schema) - self.table.keys
        rows = [
            (group_of(key), key not in self.rows, *key, *self.rows.get(key, (None,) * width))
            for key in keys
        ]
        columns = zip(*rows, strict=True) if rows else [[]] * len(self.table.stored)
        arrays = [
            pa.array(list(column), dtype)
            for column, dtype in zip(columns, self.table.stored.types, strict=True)
        ]
        return {self.table.name: pa.table(arrays, schema=self.table.stored)}


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def open_rows(table: StateTable, rows: Rows, watermark_ms: int) -> Rows:
    if table.expires is None:
        return dict(rows)
    at = table.expires
    return {
        key: value
        for key, value in rows.items()
        if (key + value)[at] is None or (key + value)[at] > watermark_ms * 1000
    }


COUNTS = StateTable(
    "counts",
    pa.schema([pa.field("word", pa.string()), ("until", pa.int64()), ("count", pa.int64())]),
    keys=2,
    expires=1,
)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}")


def writer(storage: Storage, groups: range, chain: Chain | None = None, **other: Any) -> Any:
    fixed = {"query_id": "query", "stage": 1, "generation": 1}
    return SnapshotWriter(storage, groups=groups, chain=chain, **{**fixed, **other})


def write(storage: Storage, shelf: Shelf, *epochs: Rows) -> list[SnapshotHandle]:
    """A snapshot for each dictionary, of what it puts."""
    to = writer(storage, range(GROUPS))
    handles = []
    for epoch, rows in enumerate(epochs):
        for key, value in rows.items():
            shelf.put(key, value)
        handles.append(to.prepare(epoch, 0, [shelf]).write())
    return handles


def read(
    storage: Storage, handles: Sequence[SnapshotHandle], table: StateTable, **other: Any
) -> tuple[Rows, Chain | None]:
    shelf = Shelf(table)
    fixed = {"query_id": "query", "watermark_ms": 0}
    chain = restore(storage, handles, range(GROUPS), [shelf], **{**fixed, **other})
    return shelf.rows, chain


# -- any history ----------------------------------------------------------------------------------

words = st.sampled_from(["", "a", "ä\0", "a" * 40, None])
times = st.sampled_from([None, -5, 0, 1_000, 2_000_000, 2_000_001, 9_000_000])
changes = st.one_of(
    st.tuples(st.just("put"), st.tuples(words, times), st.integers(0, 3)),
    st.tuples(st.just("drop"), st.tuples(words, times), st.just(0)),
)
epochs = st.lists(
    st.tuples(
        st.lists(changes, max_size=6),
        st.integers(0, 1_500),  # so far the watermark moves
        st.sampled_from([None, None, None, 1, 2, 3, 5]),  # so many tasks from then on
    ),
    max_size=25,
)


class Slow:
    """Does work when it is told to."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def __call__(self, kind: str, work: Any) -> None:
        self.work.append(work)

    def do_one(self) -> None:
        if self.work:
            self.work.pop(0)()


@given(epochs, st.integers(1, 4), st.booleans())
@settings(max_examples=200, deadline=None)
def test_whatever_happens_what_is_restored_is_what_was_there(
    history: list[tuple[list[tuple[str, Key, int]], int, int | None]],
    files_max: int,
    is_slow: bool,
) -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "FILES_MAX", files_max)
        tasks, generation, watermark_ms = 2, 1, 0
        slow = Slow()
        later: Later = slow if is_slow else at_once
        model: Rows = {}
        shelves = [Shelf(COUNTS) for _ in range(tasks)]
        writers = [
            writer(storage, groups_of(task, tasks, GROUPS), later=later) for task in range(tasks)
        ]
        for epoch, (steps, moves_ms, then) in enumerate(history):
            for kind, key, value in steps:
                if key[1] is not None and key[1] <= watermark_ms * 1000:
                    continue  # late
                (shelf,) = (
                    shelf
                    for task, shelf in enumerate(shelves)
                    if group_of(key) in groups_of(task, tasks, GROUPS)
                )
                if kind == "put":
                    shelf.put(key, (value,))
                    model[key] = (value,)
                else:
                    shelf.drop(key)
                    model.pop(key, None)
            watermark_ms += moves_ms
            model = open_rows(COUNTS, model, watermark_ms)
            for shelf in shelves:
                shelf.close(watermark_ms)
            if epoch % 3 == 0:
                slow.do_one()
            handles = [
                to.prepare(epoch, watermark_ms, [shelf]).write()
                for to, shelf in zip(writers, shelves, strict=True)
            ]
            handles = [SnapshotHandle.from_json(each.to_json()) for each in handles]
            assert all(each.since <= epoch for each in handles)
            found = read_tables(
                storage, handles, range(GROUPS), query_id=None, watermark_ms=watermark_ms
            )
            rows = [row for table in found.values() for row in rows_of(table)]
            assert {(word, until): (count,) for *_, word, until, count in rows} == model
            assert len(rows) == len(model)
            if then is not None:
                tasks, generation = then, generation + 1
                shelves = [Shelf(COUNTS) for _ in range(tasks)]
                writers = []
                for task, shelf in enumerate(shelves):
                    groups = groups_of(task, tasks, GROUPS)
                    chain = restore(
                        storage,
                        handles,
                        groups,
                        [shelf],
                        query_id="query",
                        watermark_ms=watermark_ms,
                    )
                    if chain is not None and not is_slow:
                        assert len(chain.links) <= max(files_max, 2)
                    new = writer(storage, groups, chain, generation=generation, later=later)
                    writers.append(new)
                assert {k: v for shelf in shelves for k, v in shelf.rows.items()} == model


# -- keys -----------------------------------------------------------------------------------------

MOMENT = datetime(2020, 1, 1, tzinfo=timezone.utc)
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "ß", None]),
    "bytes": (pa.binary(), [b"", b"\xff", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "small": (pa.int8(), [-128, 127, None]),
    "float": (pa.float64(), [math.inf, 5e-324, None]),
    "decimal": (pa.decimal128(5, 2), [Decimal("0.00"), Decimal("-1.50"), None]),
    "time": (pa.timestamp("us", "UTC"), [MOMENT, None]),
    "void": (pa.null(), [None]),
    "list": (pa.list_(pa.int32()), [[], [1], [1, None], None]),
    "struct": (
        pa.struct([("start", pa.timestamp("us", "UTC")), ("n", pa.int32())]),
        [{"start": MOMENT, "n": 1}, {"start": None, "n": None}, None],
    ),
    "nested": (
        pa.struct([("inner", pa.struct([("x", pa.string())])), ("l", pa.list_(pa.string()))]),
        [{"inner": {"x": None}, "l": None}, {"inner": None, "l": []}, None],
    ),
    "interval": (pa.month_day_nano_interval(), [(1, 0, 0), None]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(kind: str, storage: Storage) -> None:
    dtype, values = KEYS[kind]
    schema = pa.schema([("key", dtype), ("other", pa.string()), ("n", pa.int64())])
    table = StateTable("t", schema, keys=2)
    shelf = Counting(table, values)
    handles = shelf.write(storage)
    found = read_tables(storage, handles, range(GROUPS), query_id="query", watermark_ms=0)
    ((_, rows),) = found.items()
    assert rows.schema == table.stored
    values = pa.array(values, dtype).to_pylist()  # with time zones of the same make
    expected = [(value, other, 7) for value in values for other in ("x", None) if other or value]
    seen = [tuple(row[2:]) for row in rows_of(rows)]
    assert sorted(map(repr, seen)) == sorted(map(repr, expected))


class Counting(Shelf):
    """Keys that a dictionary cannot have: all in the first snapshot, changed or gone later."""

    def __init__(self, table: StateTable, values: list[Any]) -> None:
        super().__init__(table)
        self.values = values
        self.epoch = 0

    def changes(self, *, whole: bool) -> Mapping[str, pa.Table]:
        assert whole == (self.epoch == 0)
        rows = [
            (0, bool(self.epoch == 2 and not other and not value), value, other)
            for value in self.values
            for other in ("x", None)
        ]
        numbers = [None if row[1] else (3, 5, 7)[self.epoch] for row in rows]
        columns = [*map(list, zip(*rows, strict=True)), numbers]
        types = self.table.stored.types
        arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        self.epoch += 1
        return {self.table.name: pa.table(arrays, schema=self.table.stored)}

    def write(self, storage: Storage) -> list[SnapshotHandle]:
        to = writer(storage, range(GROUPS))
        return [[to.prepare(e, 0, [self]).write() for e in range(3)][-1]]


def test_zeros_and_not_a_numbers_are_one_key_each(storage: Storage) -> None:
    table = StateTable("t", pa.schema([("key", pa.float64()), ("n", pa.int64())]), keys=1)
    shelf = Shelf(table)
    base = {(float(n),): (n,) for n in range(3, 40)}
    (*_, last) = write(
        storage,
        shelf,
        {**base, (0.0,): (1,), (math.nan,): (1,)},
        {(-0.0,): (2,)},
        {(-math.nan,): (2,)},
    )
    rows, _ = read(storage, [last], table)
    assert len(rows) == len(base) + 2
    assert {repr(abs(key)): n for (key,), (n,) in rows.items() if not key > 0} == {
        "0.0": 2, "nan": 2
    }  # fmt: skip


def test_a_table_without_a_key_has_one_row(storage: Storage) -> None:
    table = StateTable("t", pa.schema([("n", pa.int64())]), keys=0)
    shelf = Shelf(table)
    handles = write(storage, shelf, {(): (1,)}, {(): (2,)}, {})
    assert read(storage, [handles[-1]], table)[0] == {(): (2,)}
    shelf.drop(())
    to = writer(storage, range(GROUPS))
    handle = to.prepare(5, 0, [shelf]).write()
    assert (handle.file, handle.since) == (None, 5)
    assert read(storage, [handle], table)[0] == {}


# -- what is written ------------------------------------------------------------------------------


def test_an_epoch_without_changes_has_the_snapshot_of_before(storage: Storage) -> None:
    shelf = Shelf(COUNTS)
    empty, first, same = write(storage, shelf, {}, {("a", None): (1,)}, {})
    assert (empty.file, empty.checksum, empty.since, empty.rows) == (None, None, 0, 0)
    assert same == first
    assert first.file is not None
    assert len(storage.files_below("state")) == 1
    name = SnapshotName.parse(first.file)
    assert name is not None
    assert (name.stage, name.epoch, name.generation, name.first_group, name.end_group) == (
        1, 1, 1, 0, GROUPS
    )  # fmt: skip
    assert str(name) == first.file
    assert (first.rows, first.nbytes) == (1, storage.info(first.file).size)
    assert pickle.loads(pickle.dumps(first)) == first


MANY: Rows = {(str(n), None): (n,) for n in range(1_000)}


def test_a_long_chain_becomes_one_file(storage: Storage) -> None:
    shelf = Shelf(COUNTS)
    handles = write(storage, shelf, MANY, *[{("0", None): (n,)} for n in range(70)], {}, {})
    assert [each.since for each in handles[:30]] == [0] * 30
    assert [each.since for each in handles[30:59]] == [29] * 29
    assert [each.since for each in handles[59:]] == [58] * 14
    assert [each.rows for each in handles[28:31]] == [1_028, 1_029, 1_001]
    for epoch, handle in enumerate(handles):
        count = min(max(epoch - 1, 0), 69)
        assert read(storage, [handle], COUNTS)[0] == {**MANY, ("0", None): (count,)}


def test_large_changes_make_a_chain_long(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "CHANGES_BYTES_MIN", 0)
    shelf = Shelf(COUNTS)
    some = dict(list(MANY.items())[:300])
    handles = write(storage, shelf, MANY, some, some, some, {}, {})
    assert [each.since for each in handles] == [0, 0, 0, 2, 2, 2]
    assert read(storage, [handles[-1]], COUNTS)[0] == MANY


def test_an_epoch_without_changes_takes_the_one_file(storage: Storage) -> None:
    shelf, slow = Shelf(COUNTS), Slow()
    to = writer(storage, range(GROUPS), later=slow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "FILES_MAX", 3)
        for epoch in range(3):
            shelf.put((str(epoch), None), (epoch,))
            last = to.prepare(epoch, 0, [shelf]).write()
    assert to.prepare(3, 0, [shelf]).write() == last
    slow.do_one()
    handle = to.prepare(4, 0, [shelf]).write()
    assert (handle.since, handle.rows) == (2, 3)
    rows, chain = read(storage, [handle], COUNTS)
    assert rows == shelf.rows
    assert chain is not None
    assert len(chain.links) == 1


def test_a_chain_that_cannot_be_shortened_goes_on(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "FILES_MAX", 3)
    shelf, slow = Shelf(COUNTS), Slow()
    to = writer(storage, range(GROUPS), later=slow)
    for epoch in range(12):
        shelf.put((str(epoch), None), (epoch,))
        handle = to.prepare(epoch, 0, [shelf]).write()
    assert handle.since == 0
    assert len(slow.work) == 4, "asked for again after so many files"
    for epoch in range(12, 20):
        slow.do_one()
        shelf.put((str(epoch), None), (epoch,))
        handle = to.prepare(epoch, 0, [shelf]).write()
        assert read(storage, [handle], COUNTS)[0] == shelf.rows
    assert handle.since > 12


def test_a_restart_goes_on_behind_the_chain(storage: Storage) -> None:
    shelf = Shelf(COUNTS)
    handles = write(storage, shelf, MANY, {("0", None): (7,)})
    rows, chain = read(storage, handles[-1:], COUNTS)
    assert chain is not None
    assert chain.handle == handles[-1]
    assert [link.nbytes for link in chain.links] == [
        storage.info(link.file).size for link in chain.links
    ]
    again = Shelf(COUNTS)
    again.rows = rows
    again.put(("1", None), (8,))
    to = writer(storage, range(GROUPS), chain, generation=2)
    handle = to.prepare(2, 0, [again]).write()
    assert (handle.since, handle.rows) == (0, 1_002)
    assert read(storage, [handle], COUNTS)[0] == {**MANY, ("0", None): (7,), ("1", None): (8,)}


def test_two_attempts_at_an_epoch_do_not_meet(storage: Storage) -> None:
    rows = {("a", None): (1,)}
    names = set()
    for generation in (1, 2):
        shelf = Shelf(COUNTS)
        shelf.put(*next(iter(rows.items())))
        names.add(
            writer(storage, range(GROUPS), generation=generation).prepare(0, 0, [shelf]).write()
        )
    assert len(names) == 2
    assert len(storage.files_below("state")) == 2


def test_the_answer_was_lost_and_the_file_is_there(storage: Storage) -> None:
    shelf = Shelf(COUNTS)
    shelf.put(("a", None), (1,))
    job = writer(storage, range(GROUPS)).prepare(0, 0, [shelf])
    handle = job.write()
    assert handle.file is not None
    assert writer(storage, range(GROUPS)).prepare(0, 0, [shelf]).write() == handle
    job = writer(storage, range(GROUPS)).prepare(0, 0, [shelf])
    storage.replace(handle.file, b"another")
    with pytest.raises(CheckpointCorruptError, match="is there already, and holds something else"):
        job.write()


def test_several_stages_and_chunks_are_one_file(storage: Storage) -> None:
    one, two = Shelf(COUNTS, "one"), Shelf(COUNTS, "two")
    one.put(("a", None), (1,))
    two.put(("b", None), (2,))
    handle = writer(storage, range(GROUPS)).prepare(0, 0, [one, two]).write()
    assert len(storage.files_below("state")) == 1
    restored = [Shelf(COUNTS, "one"), Shelf(COUNTS, "two")]
    restore(storage, [handle], range(GROUPS), restored, query_id="query", watermark_ms=0)
    assert [shelf.rows for shelf in restored] == [one.rows, two.rows]

    table = next(iter(one.changes(whole=True).values()))
    chunks = pa.concat_tables([table, table.slice(0, 0), table])
    head = files.TableHead.of("one", COUNTS)
    header = files.Header("query", 1, 0, GROUPS, 0, 1, 0, (), (head, replace(head, stage="two")))
    decoded, found = files.decode(files.encode(header, [chunks, table]))
    assert decoded == header
    assert found == [chunks, table]


# -- what is refused ------------------------------------------------------------------------------


def three(storage: Storage) -> tuple[SnapshotHandle, list[str]]:
    """A chain of three files."""
    *_, last = write(storage, Shelf(COUNTS), MANY, {("0", None): (7,)}, {("1", None): (8,)})
    _, chain = read(storage, [last], COUNTS)
    assert chain is not None
    return last, [link.file for link in chain.links]


@pytest.mark.parametrize("which", range(3))
def test_a_file_that_is_missing(storage: Storage, which: int) -> None:
    handle, names = three(storage)
    storage.delete(names[which])
    with pytest.raises(
        CheckpointCorruptError, match=r"-0-7-\w+\.arrow is missing.*Restore"
    ) as told:
        read(storage, [handle], COUNTS)
    assert told.value.epoch == which


@pytest.mark.parametrize("which", range(3))
def test_a_file_that_is_torn_or_damaged(storage: Storage, which: int) -> None:
    handle, names = three(storage)
    data, draw = storage.read(names[which]), random.Random(7)
    for length in (0, 1, len(data) // 2, len(data) - 1):
        storage.replace(names[which], data[:length])
        with pytest.raises(CheckpointCorruptError, match="is torn: its"):
            read(storage, [handle], COUNTS)
    for _ in range(50):
        at = draw.randrange(len(data))
        storage.replace(
            names[which], data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        )
        with pytest.raises(CheckpointCorruptError, match=r"is (torn|damaged|another|a file of)"):
            read(storage, [handle], COUNTS)


@pytest.mark.parametrize("which", range(3))
def test_a_file_that_is_another_one(storage: Storage, which: int) -> None:
    handle, names = three(storage)

    def other(rows: Rows, **place: Any) -> bytes:
        shelf = Shelf(COUNTS)
        for key, value in rows.items():
            shelf.put(key, value)
        groups = place.pop("groups", range(GROUPS))
        epoch = place.pop("epoch", which)
        there = writer(storage, groups, **place).prepare(epoch, 0, [shelf]).write()
        assert there.file is not None
        return storage.read(there.file)

    rows: Rows = {("a", None): (1,)}
    for fault, data in {
        "another query, elsewhere": other(rows, query_id="elsewhere"),
        "another file: stage 2 behind": other(rows, stage=2),
        "behind epoch 77, key groups 0 to 7": other(rows, epoch=77),
        "key groups 0 to 3": other(rows, groups=range(4)),
        "or of another run": other(rows, generation=9),
    }.items():
        storage.replace(names[which], data)
        with pytest.raises(CheckpointCorruptError, match=fault):
            read(storage, [handle], COUNTS)


def test_a_newer_format(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "VERSION", 2)
    (handle,) = write(storage, Shelf(COUNTS), {("a", None): (1,)})
    monkeypatch.undo()
    with pytest.raises(CheckpointVersionError, match=r"\.arrow cannot be read.*version 2"):
        read(storage, [handle], COUNTS)


def test_key_groups_that_no_handle_has(storage: Storage) -> None:
    (handle,) = write(storage, Shelf(COUNTS), {("a", None): (1,)})
    with pytest.raises(CheckpointCorruptError, match="key groups 0-7, and 4-15 are needed"):
        restore(storage, [handle], range(4, 16), [Shelf(COUNTS)], query_id="query", watermark_ms=0)


@pytest.mark.parametrize(
    ("table", "difference"),
    [
        (StateTable("other", COUNTS.schema, 2, 1), r"has the table shelf\.counts, which the query"),
        (
            StateTable("counts", COUNTS.schema.set(2, pa.field("sum", pa.int64())), 2, 1),
            r"\(word string, until int64 \| count int64\) in the .* \| sum int64\) in the query",
        ),
        (StateTable("counts", COUNTS.schema, 1, 1), r"\(word string \| until int64, count"),
    ],
)
def test_the_state_of_another_query(storage: Storage, table: StateTable, difference: str) -> None:
    (handle,) = write(storage, Shelf(COUNTS), {("a", None): (1,)})
    with pytest.raises(ConfigError, match=difference):
        read(storage, [handle], table)
