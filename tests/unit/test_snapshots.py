"""Snapshots against a dictionary: whatever was written, what is read is what was there."""

from __future__ import annotations

import math
import pickle
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.background import Later, at_once
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointCorruptError
from engine.exchange.key_groups import groups_of
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName
from engine.state import chains, files, pieces, snapshots
from engine.state.contract import StateTable
from engine.state.restoring import read_tables, restore
from tests.gathered import changes_of
from tests.unit.shelves import (
    COUNTS,
    GROUPS,
    MANY,
    Key,
    Rows,
    Shelf,
    Slow,
    group_of,
    open_rows,
    read,
    rows_of,
    write,
    writer,
)

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


@given(
    epochs,
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0, 2, 1_000]),
    st.sampled_from([600, 2_000, None]),
    st.sampled_from([0.5, 100.0]),
)
@settings(max_examples=200, deadline=None)
def test_whatever_happens_what_is_restored_is_what_was_there(
    history: list[tuple[list[tuple[str, Key, int]], int, int | None]],
    files_max: int,
    is_slow: bool,
    whole_rows_min: int,
    piece_bytes: int | None,
    share_max: float,
) -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "FILES_MAX", files_max)
        patch.setattr(snapshots, "CHANGES_SHARE_MAX", share_max)
        patch.setattr(snapshots, "WHOLE_ROWS_MIN", whole_rows_min)
        if piece_bytes is not None:
            patch.setattr(pieces, "PIECE_BYTES", piece_bytes)
            patch.setattr(chains, "_MAPPED_MIN", 0)
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
                    if chain is not None and not is_slow and piece_bytes is None:
                        # What is made into one file is named by the next: a restart may
                        # come between the two, each time.
                        assert len(chain.links) <= max(files_max, 2) + generation - 2
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

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
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
        yield self.table.name, pa.table(arrays, schema=self.table.stored)

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


def test_keys_that_python_has_not(storage: Storage) -> None:
    times = pa.list_(pa.timestamp("us", "UTC"))
    table = StateTable("t", pa.schema([("key", times), ("n", pa.int64())]), keys=1)
    handles = write(storage, ByTimes(table), MANY_TIMES, {((YEAR_10000,),): (7,)})
    found = read_tables(storage, handles[-1:], range(GROUPS), query_id="query", watermark_ms=0)
    ((_, rows),) = found.items()
    keys = rows.column("key").cast(pa.list_(pa.int64())).to_pylist()
    numbers = dict(zip(map(tuple, keys), rows.column("n").to_pylist(), strict=True))
    assert numbers == {key: n for (key,), (n,) in {**MANY_TIMES, ((YEAR_10000,),): (7,)}.items()}


YEAR_10000 = 253_402_300_800_000_000
MANY_TIMES: Rows = {((n, YEAR_10000),): (n,) for n in range(1_000)} | {((YEAR_10000,),): (0,)}


class ByTimes(Shelf):
    """What is not changed is not read."""

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        raise AssertionError


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


def test_state_that_has_all_gone_does_not_come_back(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "WHOLE_ROWS_MIN", 100)
    shelf = Shelf(COUNTS)
    to = writer(storage, range(GROUPS))
    for epoch, rows in enumerate((MANY, {}, {("0", None): (7,)})):
        for key in list(shelf.rows):
            shelf.drop(key)
        for key, value in rows.items():
            shelf.put(key, value)
        handle = to.prepare(epoch, 0, [shelf]).write()
        assert read(storage, [handle], COUNTS)[0] == rows


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


class TwoTables(Shelf):
    """Has a second one, or does not want it any more."""

    def __init__(self, more: bool) -> None:
        super().__init__(COUNTS)
        self.more = Shelf(replace(COUNTS, name="more"))
        self.dropped = frozenset() if more else frozenset({"more"})

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (COUNTS,) if self.dropped else (COUNTS, self.more.table)

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        super().restore({name: rows for name, rows in tables.items() if name == "counts"})
        self.more.restore({name: rows for name, rows in tables.items() if name == "more"})

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        yield from super().changes(whole=whole)
        if not self.dropped:
            yield from self.more.changes(whole=whole)


def test_a_table_that_was_not_wanted_does_not_come_back(storage: Storage) -> None:
    both = TwoTables(more=True)
    both.more.put(("x", None), (1,))
    (handle,) = write(storage, both, MANY)
    for generation in (2, 3):
        without = TwoTables(more=False)
        chain = restore(
            storage, [handle], range(GROUPS), [without], query_id="query", watermark_ms=0
        )
        without.put(("y", None), (generation,))
        to = writer(storage, range(GROUPS), chain, generation=generation)
        handle = to.prepare(generation, 0, [without]).write()
    assert chain is not None, "the second time there is nothing to leave out"
    again = TwoTables(more=True)
    restore(storage, [handle], range(GROUPS), [again], query_id="query", watermark_ms=0)
    assert (again.rows, again.more.rows) == ({**MANY, ("y", None): (3,)}, {})
    rows, _ = read(storage, [handle], COUNTS)  # and nobody has to leave it out any more
    assert rows == again.rows


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

    table = next(iter(changes_of(one, whole=True).values()))
    chunks = pa.concat_tables([table, table.slice(0, 0), table])
    head = files.TableHead.of("one", COUNTS)
    header = files.Header("query", 1, 0, GROUPS, 0, 1, 0, (), (head, replace(head, stage="two")))
    decoded, found = files.decode(files.encode(header, [chunks, table]))
    assert decoded == header
    assert found == [chunks, table]


def test_rows_that_are_more_than_a_piece_are_several_files(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4_000)
    monkeypatch.setattr(snapshots, "WHOLE_ROWS_MIN", 0)
    shelf = Shelf(COUNTS)
    to = writer(storage, range(GROUPS), later=Slow())
    for key, value in MANY.items():
        shelf.put(key, value)
    one = to.prepare(0, 0, [shelf, Shelf(COUNTS, "other")]).write()
    assert one.rows == len(MANY)
    for key in list(MANY)[:10]:
        shelf.put(key, (7,))
    two = to.prepare(1, 0, [shelf]).write()
    assert (two.since, two.rows) == (0, len(MANY) + 10)
    rows, chain = read(storage, [two], COUNTS)
    assert rows == shelf.rows
    assert chain is not None
    again = writer(storage, range(GROUPS), chain, generation=2)
    assert again.prepare(2, 0, [shelf]).write().since == 0


def test_what_was_taken_is_that_of_its_epoch(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late it is written, and wherever it waits."""
    shelf = Shelf(COUNTS)
    to = writer(storage, range(GROUPS))
    jobs, models = [], []
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", 1)
        for epoch in range(4):
            shelf.put(("a", None), (epoch,))
            shelf.put((str(epoch), None), (epoch,))
            jobs.append(to.prepare(epoch, 0, [shelf]))
            models.append(dict(shelf.rows))
    for job, model in zip(jobs, models, strict=True):
        assert read(storage, [job.write()], COUNTS)[0] == model
