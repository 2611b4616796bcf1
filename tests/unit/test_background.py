"""Work that nobody waits for."""

from __future__ import annotations

import logging
import threading

import pytest

from engine.base.background import Background

WAIT_S = 30


def test_in_order_and_the_last_of_each_kind() -> None:
    done: list[str] = []
    go, begun = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert go.wait(WAIT_S)
        done.append("first")

    background = Background("test")
    background("clean", first)
    assert begun.wait(WAIT_S)
    for number in range(5):
        background("clean", lambda number=number: done.append(f"clean {number}"))  # type: ignore[misc]
        background("save", lambda number=number: done.append(f"save {number}"))  # type: ignore[misc]
    go.set()
    assert background.close(WAIT_S)
    assert done == ["first", "clean 4", "save 4"]


def test_what_fails_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    background = Background("test")
    background("bad", lambda: {}["password=hunter2"])
    background("good", lambda: done.append(1))
    assert background.close(WAIT_S)
    assert done == [1]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("bad failed\n")
    assert "KeyError" in caplog.text
    assert "hunter2" not in caplog.text


def test_what_hangs_is_left_behind_with_all_that_waits_for_it() -> None:
    done: list[int] = []
    go, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert go.wait(WAIT_S)

    background = Background("test")
    background("hang", hang)
    assert begun.wait(WAIT_S)
    background("next", lambda: done.append(1))
    assert not background.close(0.01)
    go.set()
    assert background.close(WAIT_S)
    assert done == []


def test_nothing_to_do() -> None:
    assert Background("test").close(WAIT_S)
