"""``continuous top`` as tests see it: on a screen of its own, or in a real terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from engine.base.clock import SystemClock
from engine.commands.terminal.app import TopApp
from engine.commands.terminal.query_table import QueryTable, cells
from tests.simulation.story import WAIT_S

_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?:<>=]*[a-zA-Z]|[\]P].*?(?:\x07|\x1b\\)|[=>()][0-9A-Z]?)")


def driven(places: list[str], steps: Callable[[Pilot[None]], Coroutine[Any, Any, None]]) -> None:
    """Do these steps on a screen of 140 columns."""

    async def drive() -> None:
        async with TopApp(places).run_test(size=(140, 50)) as pilot:
            await steps(pilot)

    asyncio.run(drive())


async def until(pilot: Pilot[None], holds: Callable[[], object], what: str) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + WAIT_S
    while not holds():
        assert clock.monotonic_s() < deadline_s, f"{what}: {shown(pilot)}"
        await pilot.pause(0.02)


def shown(pilot: Pilot[None]) -> list[list[str]]:
    """The cells of the list."""
    now_ms = SystemClock().now_ms()
    table = pilot.app.screen_stack[0].query_one(QueryTable)
    return [[text for text, _ in cells(each, now_ms)] for each in table.found]


def label(pilot: Pilot[None], name: str) -> str:
    return str(pilot.app.screen.query_one(f"#{name}", Static).render())


class Terminal:
    """``continuous top`` in a real one, of 140 columns."""

    def __init__(self, place: Path | str) -> None:
        self._driver, terminal = pty.openpty()
        # tcsetwinsize came with Python 3.11.
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        path = str(Path(__file__).parents[2])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "engine", "top", str(place)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": path},
            start_new_session=True,
        )
        os.close(terminal)
        self._clock, self._screen = SystemClock(), bytearray()
        self._deadline_s = self._clock.monotonic_s() + 2 * WAIT_S

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._driver)

    def press(self, key: bytes) -> None:
        os.write(self._driver, key)

    def forget(self) -> None:
        """What was on the screen."""
        self._screen.clear()

    def read_until(self, holds: Callable[[], bool], what: str) -> None:
        while not holds():
            late = self._clock.monotonic_s() >= self._deadline_s
            assert not late, f"{what}: {bytes(self._screen[-3000:])!r}"
            if select.select([self._driver], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # it has closed its side
                    self._screen.extend(os.read(self._driver, 65536))

    def sees(self, text: str) -> Callable[[], bool]:
        return lambda: text.encode() in _ESCAPES.sub(b"", bytes(self._screen))

    def is_restored(self) -> bool:
        """Whether it has left the alternate screen."""
        return b"\x1b[?1049l" in self._screen

    def await_end(self) -> None:
        self.read_until(lambda: self.process.poll() is not None, "the end")
        assert self.process.returncode == 0
