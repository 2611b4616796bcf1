"""Files of snapshots: which stay with retention, pins, copies and rewinds."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.noted_state import noted_in, noted_state, to_note
from engine.checkpoint.pins import add_pin
from engine.checkpoint.retention import prune
from engine.checkpoint.rewound import INTENT
from engine.checkpoint.state_retention import StatePurge
from engine.errors import CheckpointCorruptError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName
from engine.snapshots.retention import removable
from engine.state.contract import StateTable
from engine.state.restoring import read_tables
from engine.state.snapshots import SnapshotWriter
from tests.unit.shelves import COUNTS, GROUPS, Rows, Shelf, rows_of


class Query:
    """Counts, in two tasks of a stage, and writes its logs."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        generation: int = 1,
        epoch: int = 0,
        table: StateTable = COUNTS,
    ) -> None:
        self.checkpoint = checkpoint
        self.epoch = epoch
        self.shelves = [Shelf(table), Shelf(table)]
        self.writers = [
            SnapshotWriter(
                checkpoint.storage,
                query_id="query",
                stage=1,
                groups=groups,
                generation=generation,
            )
            for groups in (range(4), range(4, GROUPS))
        ]

    def run(self, *epochs: Rows) -> list[SnapshotHandle]:
        """What the last of them has kept."""
        handles: list[SnapshotHandle] = []
        for rows in epochs:
            for key, value in rows.items():
                self.shelves[sum(repr(key).encode()) % GROUPS // 4].put(key, value)
            handles = [
                writer.prepare(self.epoch, 0, [shelf]).write()
                for writer, shelf in zip(self.writers, self.shelves, strict=True)
            ]
            metadata = {"batchWatermarkMs": 0, "writtenBy": "continuous", "state": to_note(handles)}
            self.checkpoint.offsets.add(self.epoch, OffsetEntry((self.epoch,), metadata))
            self.checkpoint.commits.add(self.epoch, CommitEntry())
            self.epoch += 1
        return handles

    def count(self, epochs: int) -> list[SnapshotHandle]:
        """Each a change of a few keys; a whole snapshot now and then."""
        return self.run(*map(expected_at, range(self.epoch, self.epoch + epochs)))


def state_at(checkpoint: Checkpoint, epoch: int, text: str | None = None) -> Rows:
    handles = noted_in(text) if text else noted_state(checkpoint.offsets.get(epoch))
    found = read_tables(checkpoint.storage, handles, range(GROUPS), query_id=None, watermark_ms=0)
    return {
        (word, until): (count,)
        for table in found.values()
        for *_, word, until, count in rows_of(table)
    }


def expected_at(epoch: int) -> Rows:
    return {(str(n), None): (epoch + n,) for n in range(9)}


def files(checkpoint: Checkpoint) -> set[str]:
    return {f"state/{name}" for name in checkpoint.storage.files_below("state")}


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}"


@pytest.fixture
def query(folder: str) -> Query:
    """Has committed 40 epochs."""
    checkpoint = Checkpoint(f"{folder}/one")
    checkpoint.create_or_read_query_id("query")
    query = Query(checkpoint)
    query.count(40)
    return query


# -- the plan -------------------------------------------------------------------------------------

spans = st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 3))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=20), st.data())
@settings(max_examples=200, deadline=None)
def test_no_chain_that_is_kept_loses_a_file(lengths: list[int], data: st.DataObject) -> None:
    """Chains of a stage, as writers make them: each goes on, or begins anew, or changes nothing."""
    handles: list[SnapshotHandle] = []
    chains: list[set[str]] = []
    for epoch, kind in enumerate(lengths):
        name = str(SnapshotName(1, epoch, 1, 0, 8, "0" * 8))
        if kind == 0 or not handles:
            handle, chain = SnapshotHandle(1, 0, 8, name, "0", epoch), {name}
        elif kind == 1:
            handle, chain = handles[-1], chains[-1]
        else:
            handle = SnapshotHandle(1, 0, 8, name, "0", handles[-1].since)
            chain = chains[-1] | {name}
        handles.append(handle)
        chains.append(chain)
    kept_from = data.draw(st.integers(0, len(handles) - 1))
    pinned = data.draw(st.sets(st.integers(0, len(handles) - 1), max_size=3))
    everything = {
        *(file for chain in chains for file in chain),
        *(str(SnapshotName(1, epoch, 2, 0, 8, "1" * 8)) for epoch in range(len(handles))),
        "state/0/0/1.delta",
        "state/1/.0-1-0-7-00000000.arrow.tmp",
    }
    gone = removable(everything, kept_from, [handles[kept_from]], [handles[e] for e in pinned])
    assert len(gone) == len(set(gone))
    needed = {
        file for epoch in (*range(kept_from, len(handles)), *pinned) for file in chains[epoch]
    }
    assert needed <= everything - set(gone)
    for file in everything - set(gone) - needed:
        left = SnapshotName.parse(file)
        if left is not None:  # what nobody needs stays only between files that somebody does
            assert left.epoch >= handles[kept_from].since or any(
                handles[e].since <= left.epoch <= e for e in pinned
            )


def test_a_stage_that_the_oldest_entry_does_not_have() -> None:
    names = [str(SnapshotName(stage, 5, 1, 0, 8, "0" * 8)) for stage in (1, 2)]
    handle = SnapshotHandle(1, 0, 8, names[0], "0", 4)
    assert removable(names, 6, [handle]) == [names[1]]
    assert removable(names, 5, [handle]) == []


# -- retention ------------------------------------------------------------------------------------


def test_retention_keeps_what_the_kept_epochs_need(query: Query) -> None:
    checkpoint = query.checkpoint
    dry = prune(checkpoint, keep_epochs=5, dry_run=True)
    before = files(checkpoint)
    report = prune(checkpoint, keep_epochs=5)
    assert (report.removed_files, report.removed_bytes) == (dry.removed_files, dry.removed_bytes)
    assert report.removed_epochs == 35
    assert len(before) > 70
    assert len(files(checkpoint)) < 30
    for epoch in range(35, 40):
        assert state_at(checkpoint, epoch) == expected_at(epoch)
    query.count(3)
    assert state_at(checkpoint, 42) == expected_at(42)


def test_leftovers_of_attempts_go_with_their_epoch(query: Query) -> None:
    storage = query.checkpoint.storage
    name = str(SnapshotName(1, 3, 7, 0, 4, "0" * 8))
    late = str(SnapshotName(1, 39, 7, 0, 4, "0" * 8))
    for each in (name, late, "state/0/0/1.delta"):
        storage.create(each, b"left")
    prune(query.checkpoint, keep_epochs=5)
    assert not storage.exists(name)
    assert storage.exists(late)
    assert storage.exists("state/0/0/1.delta"), "Spark's"


def test_a_pin_keeps_its_state(query: Query) -> None:
    checkpoint = query.checkpoint
    checkpoint.pin("gold", 10)
    prune(checkpoint, keep_epochs=5)
    (pin,) = checkpoint.pins()
    assert state_at(checkpoint, 10, pin.offsets) == expected_at(10)
    assert len(files(checkpoint)) < 60, "what is between does not stay"
    report = checkpoint.rewind(to_pin="gold", accept_repeats=True)
    assert state_at(checkpoint, 10) == expected_at(10)
    again = Query(checkpoint, report.generation + 1, epoch=11)
    again.count(2)
    assert state_at(checkpoint, 12) == expected_at(12)
    checkpoint.unpin("gold")
    prune(checkpoint, keep_epochs=2)
    assert state_at(checkpoint, 12) == expected_at(12)


def test_a_pin_that_comes_too_late(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention has asked for the pins, and this one is written behind that."""
    storage = query.checkpoint.storage
    create = storage.create

    def slow(name: str, data: bytes) -> bool:
        if name.startswith("pins/"):
            prune(query.checkpoint, keep_epochs=5)
        return create(name, data)

    monkeypatch.setattr(storage, "create", slow)
    with pytest.raises(ConfigError, match=r"Epoch 3 is not among .* Available: 35 to 39"):
        add_pin(query.checkpoint, "gold", 3, 0)
    assert query.checkpoint.pins() == []
    assert add_pin(query.checkpoint, "gold", 37, 0).epoch == 37


def test_a_running_query_removes_what_it_needs_no_more(query: Query) -> None:
    checkpoint, removed = query.checkpoint, list[str]()
    purge, everything = StatePurge(checkpoint), files(checkpoint)

    def check() -> None:
        removed.append("one")

    for kept_from in range(1, 36):
        for log in (checkpoint.commits, checkpoint.offsets):
            log.purge(kept_from)
        purge(kept_from, check)
        for epoch in {*range(kept_from, 40, 8), 39}:
            assert state_at(checkpoint, epoch) == expected_at(epoch)
    assert len(removed) == len(everything) - len(files(checkpoint)) > 40


@pytest.mark.parametrize("pinned", [None, 60])
def test_a_running_query_removes_what_was_made_into_one(folder: str, pinned: int | None) -> None:
    """Small changes of a large state: its chain does not begin anew for a long time."""
    checkpoint = Checkpoint(f"{folder}/large")
    query = Query(checkpoint)
    large = {(f"large {n}", None): (n,) for n in range(20_000)}
    query.run({**large, **expected_at(0)})
    purge = StatePurge(checkpoint)
    for epoch in range(1, 200):
        purge.note(epoch, query.count(1))
        if epoch == pinned:
            checkpoint.pin("gold", epoch)
        kept_from = max(epoch - 4, 0)
        for log in (checkpoint.commits, checkpoint.offsets):
            log.purge(kept_from)
        purge(kept_from, lambda: None)
        for kept in {kept_from, epoch} if epoch % 7 == 0 else ():
            assert state_at(checkpoint, kept) == {**large, **expected_at(kept)}
    assert {handle.since for handle in noted_state(checkpoint.offsets.get(199))} == {0}
    epochs = sorted(name.epoch for file in files(checkpoint) if (name := SnapshotName.parse(file)))
    if pinned is None:
        assert len(epochs) < 2 * 40
    else:
        assert epochs.count(pinned) == 2
        (pin,) = checkpoint.pins()
        assert state_at(checkpoint, pinned, pin.offsets) == {**large, **expected_at(pinned)}
    purge(10_000, lambda: None)  # an entry that is not there
    assert state_at(checkpoint, 199) == {**large, **expected_at(199)}


def test_an_entry_that_cannot_be_read(query: Query) -> None:
    metadata = {"state": {"1": [{"unknown": 1}]}}
    query.checkpoint.offsets.add(40, OffsetEntry((40,), metadata))
    with pytest.raises(CheckpointCorruptError, match=r"state cannot be read: .*unknown"):
        noted_state(query.checkpoint.offsets.get(40))
    assert noted_state(None) == noted_state(OffsetEntry((1,))) == ()


# -- copies and rewinds ---------------------------------------------------------------------------


def test_a_copy_has_its_state(query: Query, folder: str) -> None:
    source = query.checkpoint
    prune(source, keep_epochs=20)
    target = Checkpoint(f"{folder}/two")
    copy_checkpoint(source, target, 30)
    for epoch in range(20, 31):
        assert state_at(target, epoch) == expected_at(epoch)
    epochs = {name.epoch for file in files(target) if (name := SnapshotName.parse(file))}
    assert max(epochs) == 30
    assert files(target) < files(source)
    # Its query may have the generation that the source's once had, and run the same epochs.
    target.rewind(25, accept_repeats=True)
    again = Query(target, generation=1, epoch=26)
    again.count(3)
    assert state_at(target, 28) == expected_at(28)


def before_state_is_copied(
    query: Query, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]
) -> None:
    """Something happens as soon as a file of the state is about to be read."""
    storage = query.checkpoint.storage
    read = storage.read

    def slow(name: str) -> bytes:
        if name.startswith("state/"):
            monkeypatch.setattr(storage, "read", read)
            do()
        return read(name)

    monkeypatch.setattr(storage, "read", slow)


def test_retention_while_a_copy_is_made(
    query: Query, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Checkpoint(f"{folder}/two")
    before_state_is_copied(query, monkeypatch, lambda: prune(query.checkpoint, keep_epochs=5))
    report = copy_checkpoint(query.checkpoint, target)
    assert (report.from_epoch, report.to_epoch) == (35, 39)
    assert target.epochs() == [35, 36, 37, 38, 39]
    for epoch in target.epochs():
        assert state_at(target, epoch) == expected_at(epoch)


def test_a_copy_has_no_gap_where_retention_has_just_come(
    query: Query, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store it removes several commits at the same time, in no order."""
    storage, target = query.checkpoint.storage, Checkpoint(f"{folder}/two")
    before_state_is_copied(query, monkeypatch, lambda: storage.delete("commits/36"))
    report = copy_checkpoint(query.checkpoint, target)
    assert (report.from_epoch, report.to_epoch) == (37, 39)
    assert target.epochs() == target.offsets.ids() == [37, 38, 39]


def test_a_rewind_finds_the_state_of_its_epoch(query: Query) -> None:
    checkpoint = query.checkpoint
    checkpoint.rewind(20, accept_repeats=True)
    assert state_at(checkpoint, 20) == expected_at(20)
    (lost, *_) = noted_state(checkpoint.offsets.get(10))
    assert lost.file is not None
    checkpoint.storage.delete(lost.file)
    with pytest.raises(ConfigError, match=r"state behind epoch 10 is not there: .* is missing"):
        checkpoint.rewind(10, accept_repeats=True)
    assert checkpoint.committed_epoch() == 20


@pytest.mark.parametrize("pinned", [False, True])
def test_a_rewind_to_an_epoch_that_is_removed_meanwhile_is_refused(
    query: Query, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """Retention heeds a rewind once that has begun, and has removed the state before."""
    checkpoint, storage = query.checkpoint, query.checkpoint.storage
    replace = storage.replace
    if pinned:
        checkpoint.pin("gold", 3)
        prune(checkpoint, keep_epochs=2)

    def removed_before(name: str, data: bytes, *, durable: bool = True) -> None:
        if name == INTENT:
            if pinned:
                checkpoint.unpin("gold")
            prune(checkpoint, keep_epochs=2)
        replace(name, data, durable=durable)

    monkeypatch.setattr(storage, "replace", removed_before)
    with pytest.raises(ConfigError, match="Epoch 3 is not among the committed epochs"):
        checkpoint.rewind(to_epoch=3, to_pin="gold" if pinned else None, accept_repeats=True)
    assert checkpoint.epochs() == [38, 39]
    assert not storage.exists(INTENT)
