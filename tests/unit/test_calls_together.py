"""Calls that do not need each other are made at the same time: on an object store each is a round
trip."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import pytest

from engine.base.daemon_threads import DaemonThreads, together
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.inspection import inspect_checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.contract import FileInfo
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.commands.command_line import main
from engine.commands.epoch_rows import epoch_rows

WAIT_S = 30.0
EPOCHS = 10


class Pairs:
    """Calls for names of the same of these patterns come back two at a time.

    :ivar seen: all of them, in order.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str, *patterns: str) -> None:
        self.seen: list[str] = []
        self._meetings = {each: threading.Barrier(2) for each in patterns}
        whole: Callable[..., Any] = getattr(FsspecStorage, method)

        def paired(storage: FsspecStorage, name: str, *given: Any, **more: Any) -> Any:
            pattern = next((each for each in self._meetings if fnmatch(name, each)), None)
            if pattern is not None:
                self.seen.append(name)
                self._meetings[pattern].wait(WAIT_S)
            return whole(storage, name, *given, **more)

        monkeypatch.setattr(FsspecStorage, method, paired)


@pytest.fixture
def checkpoint() -> Checkpoint:
    made = Checkpoint(f"memory://{uuid.uuid4()}/checkpoint")
    made.create_or_read_query_id("q")
    for epoch in range(EPOCHS):
        made.prepared.add(epoch, PreparedEntry(0, "run", (None,)))
        made.offsets.add(epoch, OffsetEntry((epoch,)))
        made.commits.add(epoch, CommitEntry())
        made.storage.create(f"sources/0/{epoch}", b"v1")
        made.pin(f"pin-{epoch}", epoch)
    return made


def test_prune(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = ("commits", "offsets", "prepared")
    pairs = Pairs(monkeypatch, "delete", *(f"{log}/*" for log in logs))
    report = prune(checkpoint, keep_epochs=2)
    assert (report.removed_epochs, report.removed_files, report.kept_from) == (8, 24, 8)
    assert [name.partition("/")[0] for name in pairs.seen] == [
        log for log in logs for _ in range(8)
    ]
    assert checkpoint.epochs() == checkpoint.offsets.ids() == checkpoint.prepared.ids() == [8, 9]


def test_copy(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    Pairs(monkeypatch, "read", "offsets/[78]", "sources/0/*")
    pairs = Pairs(monkeypatch, "create", "commits/*", "offsets/*", "sources/0/*")
    target = Checkpoint(f"memory://{uuid.uuid4()}/copy")
    report = copy_checkpoint(checkpoint, target)
    assert (report.from_epoch, report.to_epoch, report.files) == (0, 9, 3 * EPOCHS + 1)
    assert target.epochs() == target.offsets.ids() == list(range(EPOCHS))
    assert len(target.storage.files_below("sources")) == EPOCHS
    folders = [name.rpartition("/")[0] for name in pairs.seen]
    assert folders == [each for each in ("sources/0", "offsets", "commits") for _ in range(EPOCHS)]


def test_a_copy_lists_a_tree_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    whole = FsspecStorage.list

    def counted(storage: FsspecStorage, folder: str) -> list[FileInfo]:
        listed.append(folder)
        return whole(storage, folder)

    monkeypatch.setattr(FsspecStorage, "list", counted)
    copy_checkpoint(checkpoint, Checkpoint(f"memory://{uuid.uuid4()}/copy"))
    assert "sources/0" not in listed


def test_a_copy_leaves_out_what_vanishes(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FsspecStorage.read

    def vanishing(storage: FsspecStorage, name: str) -> bytes:
        if name == "sources/0/3":
            storage.delete(name)
        return read(storage, name)

    monkeypatch.setattr(FsspecStorage, "read", vanishing)
    target = Checkpoint(f"memory://{uuid.uuid4()}/copy")
    report = copy_checkpoint(checkpoint, target)
    assert report.files == 3 * EPOCHS
    assert "0/3" not in target.storage.files_below("sources")


def test_epochs_and_pins(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    Pairs(monkeypatch, "read", "offsets/*", "pins/*")
    rows = epoch_rows(checkpoint, range(4))
    assert [(row["epoch"], row["offsets"]) for row in rows] == [
        (each, (each,)) for each in range(4)
    ]
    assert [pin.epoch for pin in checkpoint.pins()] == list(range(EPOCHS))


def test_inspect(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.storage.replace("offsets/7", b"torn")
    Pairs(monkeypatch, "info", "commits/[67]")
    found = inspect_checkpoint(checkpoint, 4)
    assert [each["offsets"] for each in found.epochs] == [[6], None, [8], [9]]
    (problem,) = found.problems
    assert "offsets/7" in problem


def test_many_checkpoints_are_pruned(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = checkpoint.url.rpartition("/")[0]
    Checkpoint(f"{root}/other").create_or_read_query_id("other")
    Pairs(monkeypatch, "list", "control")
    assert main(["prune", f"{root}/*", "--keep-epochs", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "/checkpoint: Removed 8 epochs" in first
    assert "/other: Removed 0 epochs" in second


def test_the_first_that_fails_is_told_when_none_is_under_way() -> None:
    under_way, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def slow() -> None:
        under_way.set()
        go_on.wait(WAIT_S)
        ended.append("slow")

    def fail() -> None:
        under_way.wait(WAIT_S)
        threading.Timer(0.05, go_on.set).start()
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        together([fail, slow], 2)
    assert ended == ["slow"]


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the next start of a thread fail, as where a process has as many as it may."""
    start = threading.Thread.start

    def have_it_fail() -> None:
        def fail(thread: threading.Thread) -> None:
            monkeypatch.setattr(threading.Thread, "start", start)
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", fail)

    return have_it_fail


def test_a_thread_that_cannot_be_started_is_not_counted(
    no_more_threads: Callable[[], None],
) -> None:
    done: list[object] = []
    with DaemonThreads(1, "one") as threads:
        no_more_threads()
        with pytest.raises(RuntimeError, match="can't start"):
            threads.submit(lambda: done.append("refused"))
        threads.submit(lambda: done.append("next")).result(WAIT_S)
    assert done == ["next"]


def test_pieces_wait_for_the_threads_there_are(no_more_threads: Callable[[], None]) -> None:
    go_on = threading.Event()
    with DaemonThreads(2, "two") as threads:
        first = threads.submit(lambda: go_on.wait(WAIT_S))
        no_more_threads()
        second = threads.submit(lambda: "second")
        go_on.set()
        assert first.result(WAIT_S)
        assert second.result(WAIT_S) == "second"
