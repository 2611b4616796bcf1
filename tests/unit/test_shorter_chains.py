"""Files of snapshots that are made into one: when, and which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError
from engine.state import snapshots
from tests.unit.shelves import COUNTS, GROUPS, MANY, Shelf, Slow, read, write, writer


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


def test_an_epoch_that_changes_most_of_it_is_whole(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "CHANGES_BYTES_MIN", 0)
    monkeypatch.setattr(snapshots, "WHOLE_ROWS_MIN", 100)
    shelf, slow = Shelf(COUNTS), Slow()
    to = writer(storage, range(GROUPS), later=slow)
    most = dict(list(MANY.items())[:600])
    since = []
    for epoch, rows in enumerate((MANY, most, {("0", None): (7,)}, MANY, {})):
        for key, value in rows.items():
            shelf.put(key, value)
        handle = to.prepare(epoch, 0, [shelf]).write()
        since.append(handle.since)
        assert read(storage, [handle], COUNTS)[0] == shelf.rows
    assert since == [0, 1, 1, 3, 3]
    assert not slow.work, "nothing is made into one file"


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


def test_few_changes_of_a_large_state_are_not_the_whole_state_again_and_again(
    storage: Storage,
) -> None:
    shelf = Shelf(COUNTS)
    to = writer(storage, range(GROUPS))
    for n in range(20_000):
        shelf.put((f"large {n}", None), (n,))
    first = to.prepare(0, 0, [shelf]).write()
    for epoch in range(1, 150):
        if epoch % 10:
            shelf.put((str(epoch % 7), None), (epoch,))
        else:
            shelf.drop((str(epoch % 7), None))
        handle = to.prepare(epoch, 0, [shelf]).write()
        if epoch % 13 == 0:
            rows, chain = read(storage, [handle], COUNTS)
            assert rows == shelf.rows
            assert chain is not None
            assert len(chain.links) <= snapshots.FILES_MAX
    assert handle.since == 0
    assert handle.nbytes < 1.5 * first.nbytes


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


@pytest.mark.parametrize("is_new", [True, False])
def test_files_that_nobody_needs_any_more_need_not_be_made_into_one(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    monkeypatch.setattr(snapshots, "FILES_MAX", 3)
    monkeypatch.setattr(snapshots, "WHOLE_ROWS_MIN", 100)
    shelf, slow = Shelf(COUNTS), Slow()
    to = writer(storage, range(GROUPS), later=slow)
    epochs: list[Mapping[Any, Any]] = [{("0", None): (epoch,)} for epoch in range(3)]
    for epoch, rows in enumerate([*epochs, MANY if is_new else {}]):
        for key, value in rows.items():
            shelf.put(key, value)
        handle = to.prepare(epoch, 0, [shelf]).write()
    (waiting,) = slow.work
    for name in storage.files_below("state"):
        if name.split("/")[-1].startswith("0-"):
            storage.delete(f"state/{name}")
    if not is_new:
        with pytest.raises(CheckpointCorruptError, match="is missing"):
            waiting()
        return
    waiting()
    assert read(storage, [handle], COUNTS)[0] == MANY
