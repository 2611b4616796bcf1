"""Ways to end ``continuous top``, in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.terminals import Terminal

CTRL_C = b"\x03"


@pytest.mark.parametrize("before", [b"", b"/"], ids=["list", "filter"])
def test_ctrl_c_quits(tmp_path: Path, before: bytes) -> None:
    with Terminal(tmp_path) as top:
        top.read_until(top.sees("no checkpoint in"), "the list")
        if before:
            top.press(before)
            top.read_until(top.sees("a part of name"), "the filter")
        top.press(CTRL_C)
        top.await_end()
        top.read_until(top.is_restored, "the screen of before")


def test_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Terminal(tmp_path) as top:
        top.read_until(top.sees("no checkpoint in"), "the list")
        top.process.terminate()
        top.await_end()
        top.read_until(top.is_restored, "the screen of before")
