"""Waiting in tests: for a condition, with a deadline. No test sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_LOOK_S = 0.02


def wait_until(condition: Callable[[], T | None], what: str, seconds: float = 120) -> T:
    """Look until a condition returns something true; return that.

    :param what: names it in the error.
    :raises AssertionError: it did not in time.
    """
    deadline_s, pause = time.monotonic() + seconds, threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {seconds:g} s"
        pause.wait(_LOOK_S)
    return found
