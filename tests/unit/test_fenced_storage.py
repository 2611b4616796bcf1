"""A folder that one run at a time changes: who has lost it changes nothing any more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base import durable
from engine.checkpoint.storage.fenced_storage import FencedStorage
from engine.errors import CheckpointError, StaleRunError

CHANGES: dict[str, Callable[[FencedStorage], Any]] = {
    "create": lambda storage: storage.create("6", b"late"),
    "replace": lambda storage: storage.replace(".5.crc", b"late"),
    "replace another": lambda storage: storage.replace("5", b"late"),
    "delete": lambda storage: storage.delete("5"),
    "move": lambda storage: storage.move("5", "rewound/5-late"),
}


def taken(path: Path, generation: int, owner: str = "query") -> FencedStorage:
    storage = FencedStorage(path)
    storage.take(owner, generation)
    return storage


def content(path: Path) -> dict[str, bytes]:
    """All files, but those of the runs' own folders."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and not file.relative_to(path).parts[0].startswith((".g", ".left"))
    }


@pytest.fixture
def sleeper(tmp_path: Path) -> FencedStorage:
    storage = taken(tmp_path, 0)
    storage.create("5", b"five")
    storage.replace(".5.crc", b"checksums")
    return storage


class Meanwhile:
    """``os``, but the n-th call that changes something waits for something else to happen."""

    def __init__(self, at: int, happens: Callable[[], Any]) -> None:
        self.at, self.calls, self._happens = at, 0, happens

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("open", "link", "replace", "unlink", "fsync"):
            return real

        def call(*given: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                self._happens()
            return real(*given)

        return call


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_was_shut_out_changes_nothing(
    sleeper: FencedStorage, tmp_path: Path, change: str
) -> None:
    taken(tmp_path, 1)
    before = content(tmp_path)
    with pytest.raises(StaleRunError, match=r"g0-query is gone.*start the query again"):
        CHANGES[change](sleeper)
    assert content(tmp_path) == before


@pytest.mark.parametrize("change", CHANGES)
def test_wherever_it_sleeps(
    sleeper: FencedStorage, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is there as a whole when the other run takes over, or never comes."""
    folder, at, slept = tmp_path / "log", 0, True
    while slept:
        at += 1
        with monkeypatch.context() as patch:
            storage = taken(folder, 2 * at)
            storage.replace("5", b"five")
            storage.replace(".5.crc", b"checksums")
            for name in ("6", "rewound/5-late"):
                storage.delete(name)
            seen: dict[str, bytes] = {}

            def take_over(at: int = at, seen: dict[str, bytes] = seen) -> None:
                patch.setattr(durable, "system", os)
                taken(folder, 2 * at + 1)
                seen.update(content(folder), taken=b"")

            patch.setattr(durable, "system", Meanwhile(at, take_over))
            try:
                CHANGES[change](storage)
            except StaleRunError:
                assert seen, f"{change}, call {at}"
        slept = bool(seen)
        if slept:
            del seen["taken"]
            assert content(folder) == seen, f"{change}, call {at}"
    assert at > 3


def test_who_takes_over_goes_on_with_what_is_there(sleeper: FencedStorage, tmp_path: Path) -> None:
    storage = taken(tmp_path, 1)
    assert storage.read("5") == b"five"
    assert storage.create("6", b"six")
    storage.replace("6", b"6")
    storage.move("5", "rewound/5")
    storage.delete("6")
    assert content(tmp_path) == {"rewound/5": b"five"}
    assert sleeper.list("") == []


def test_what_a_run_has_left_is_removed(tmp_path: Path) -> None:
    taken(tmp_path, 0)
    (tmp_path / ".g0-query" / "half").write_bytes(b"ha")
    (tmp_path / ".left-by-one-that-died").mkdir()
    (tmp_path / ".left-by-one-that-died" / "half").write_bytes(b"ha")
    taken(tmp_path, 3)
    assert [each.name for each in tmp_path.iterdir()] == [".g3-query"]
    assert list((tmp_path / ".g3-query").iterdir()) == []


def test_a_run_that_comes_late_shuts_nobody_out(tmp_path: Path) -> None:
    """It has lost the lease before it took the folder: it looks at it before it writes."""
    storage = taken(tmp_path, 5)
    taken(tmp_path, 4)
    assert storage.create("5", b"")


def test_another_query_is_not_shut_out(tmp_path: Path) -> None:
    """That two must not write to one folder is for the log to say."""
    ours, others = taken(tmp_path, 0, "a/../query"), taken(tmp_path, 9, "another")
    assert ours.create("5", b"")
    assert not others.create("5", b"")


def test_a_run_takes_the_folder_again_when_it_is_restarted(tmp_path: Path) -> None:
    storage = taken(tmp_path, 0)
    storage.take("query", 1)
    assert storage.create("5", b"")


def test_a_folder_that_cannot_be_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match="Cannot write"):
        taken(tmp_path / "file", 0)


def test_what_fails_for_another_reason_says_so(sleeper: FencedStorage, tmp_path: Path) -> None:
    (tmp_path / "rewound").write_bytes(b"a file where a folder should be")
    with pytest.raises(CheckpointError, match="Cannot write"):
        sleeper.create("rewound/5", b"")
