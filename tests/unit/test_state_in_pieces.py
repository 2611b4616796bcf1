"""A state that does not fit the memory is written, merged, read and divided all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.large_state import CHANGED, KEYS
from tests.unit.little_memory import STEADY

_MiB: Final = 1 << 20
PIECE: Final = 4 * _MiB
MEMORY: Final = 72 * _MiB
WHOLE: Final = 1 << 40
"""More than there is: all is one piece, as in checkpoints that are there."""


def run(what: str, url: object, piece_bytes: int = PIECE, memory_bytes: int = MEMORY) -> Any:
    command = [sys.executable, "-m", "tests.unit.large_state", what, str(url)]
    done = subprocess.run(
        [*command, str(piece_bytes), str(memory_bytes)],
        env={**os.environ, **STEADY},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MemoryError(done.stderr[-4_000:])
    return json.loads(done.stdout)


def expected(epochs: int) -> tuple[int, int]:
    return KEYS, KEYS + CHANGED * (epochs - 1)


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("far", [False, True], ids=["here", "far"])
def test_with_little_memory(tmp_path: Path, far: bool) -> None:
    # Far away several files are read at once.
    url, memory = (f"file://{tmp_path}", 2 * MEMORY) if far else (tmp_path, MEMORY)
    since, nbytes = run("write-2", url, memory_bytes=memory)
    assert (since, nbytes > 1.5 * memory) == (0, True)
    assert len(list((tmp_path / "state" / "1").iterdir())) > 10
    assert run("read-1", url, memory_bytes=memory) == [list(expected(2))]
    parts = run("read-3", url, memory_bytes=memory)
    assert [sum(column) for column in zip(*parts, strict=True)] == list(expected(2))


@pytest.mark.sampled(0.4)
def test_merged_with_little_memory(tmp_path: Path) -> None:
    since, nbytes = run("write-and-merge", tmp_path)
    assert since >= 2
    assert nbytes > 3 * MEMORY
    assert run("read-1", tmp_path) == [list(expected(6))]


@pytest.mark.sampled(0.4)
def test_a_checkpoint_of_one_large_file(tmp_path: Path) -> None:
    run("write-2", tmp_path, WHOLE, 0)
    assert len(list((tmp_path / "state" / "1").iterdir())) == 2
    with pytest.raises(MemoryError, match=r"MemoryError|malloc"):
        run("read-1", tmp_path, WHOLE)
    assert run("read-1", tmp_path) == [list(expected(2))]


@pytest.mark.sampled(0.4)
def test_a_key_group_that_does_not_fit(tmp_path: Path) -> None:
    run("write-one-group", tmp_path)
    assert run("read-1", tmp_path) == [list(expected(2))]
