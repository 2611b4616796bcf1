"""Ways to end ``continuous top``, in a real terminal."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.simulation.terminals import Terminal

CTRL_C, CTRL_Q = b"\x03", b"\x11"


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


@pytest.mark.parametrize("key", [CTRL_C, CTRL_Q, b"q"], ids=["ctrl-c", "ctrl-q", "q"])
def test_it_ends_while_folders_are_not_listed(key: bytes) -> None:
    """A NameNode that takes each call and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"webhdfs://127.0.0.1:{silent.getsockname()[1]}/checkpoints"
        with Terminal(place) as top:
            top.read_until(top.sees("Looking for queries."), "the search")
            connection, _ = silent.accept()
            with connection:
                top.press(key)
                top.await_end()
                top.read_until(top.is_restored, "the screen of before")
