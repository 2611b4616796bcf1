"""Processes that die, sleep and fail at any step, one at a time, on one clock.

Everything runs on the thread of the test, but for an operation that is chosen to be put to sleep:
it gets a thread of its own, and either it or the test runs, never both.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.base.clock import ManualClock
from engine.checkpoint.process import Process as ProcessIdentity
from tests.faults.disk import FakeDisk

KILL, POWER, SLEEP, IO_ERROR = "kill -9", "power loss", "suspended", "I/O error"


class Killed(BaseException):
    """What a process sees of its death. Nothing it does afterwards takes effect."""


@dataclass
class Fuse:
    """What happens at the n-th step from now.

    :param at: counts only steps that match: a pattern of the call and its path.
    """

    kind: str
    steps: int
    at: str = ""


class Process:
    """A program. ``generation`` is known once it has taken the lease."""

    def __init__(self, machine: Machine, name: str, host: str) -> None:
        self.machine, self.name, self.host = machine, name, host
        self.alive = True
        self.generation: int | None = None
        self.fuse: Fuse | None = None
        self.asleep: _Sleeper | None = None
        self.frozen = False
        machine.processes.append(self)
        self.pid = len(machine.processes)

    @property
    def awake(self) -> bool:
        return self.alive and self.asleep is None and not self.frozen

    def run(self, operation: Callable[[], Any], fuse: Fuse | None = None) -> bool:
        """Run an operation to its end; False if the process has died or sleeps instead."""
        assert self.awake, f"{self.name} cannot run"
        self.fuse = fuse
        if fuse is not None and fuse.kind == SLEEP:
            return self._continue(_Sleeper(operation))
        return self._enter(operation)

    def wake(self) -> bool:
        """Go on after a sleep; False if it has died or sleeps again."""
        self.frozen = False
        sleeper = self.asleep
        return True if sleeper is None else self._continue(sleeper)

    def die(self) -> None:
        """kill -9, at whatever it does."""
        self.alive = False
        if self.asleep is not None:
            self._continue(self.asleep)

    def _continue(self, sleeper: _Sleeper) -> bool:
        self.asleep = None
        finished = self._enter(sleeper.go_on)
        if finished and not sleeper.done:
            self.asleep = sleeper
            return False
        return finished

    def _enter(self, operation: Callable[[], Any]) -> bool:
        outer, self.machine.current = self.machine.current, self
        try:
            operation()
        except Killed:
            assert not self.alive
            return False
        finally:
            self.machine.current = outer
            if self.asleep is None:
                self.fuse = None
        return True

    def step(self, call: str, path: str) -> None:
        if not self.alive:
            raise Killed
        if self.fuse is None or not re.search(self.fuse.at, f"{call} {path}"):
            return
        self.fuse.steps -= 1
        if self.fuse.steps > 0:
            return
        kind, self.fuse = self.fuse.kind, None
        self.machine.faults[kind] += 1
        if kind == KILL:
            self.alive = False
            raise Killed
        if kind == POWER:
            self.machine.lose_power()
            raise Killed
        if kind == IO_ERROR:
            number = self.machine.chance.choice([errno.EIO, errno.ENOSPC])
            raise OSError(number, os.strerror(number), path)
        _Sleeper.of_this_thread().sleep()
        if not self.alive:
            raise Killed


class _Sleeper:
    """An operation on a thread of its own that waits whenever it is told to."""

    _local = threading.local()

    def __init__(self, operation: Callable[[], Any]) -> None:
        self._operation = operation
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.done = False

    @classmethod
    def of_this_thread(cls) -> _Sleeper:
        found: _Sleeper = cls._local.sleeper
        return found

    def go_on(self) -> None:
        """Let it run until it sleeps or ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._body, daemon=True)
            self._thread.start()
        else:
            self._turn.release()
        self._back.acquire()
        if self.done:
            self._thread.join()
            if self._error is not None:
                raise self._error

    def sleep(self) -> None:
        self._back.release()
        self._turn.acquire()

    def _body(self) -> None:
        self._local.sleeper = self
        try:
            self._operation()
        except BaseException as exc:
            self._error = exc
        self.done = True
        self._back.release()


SINK, SOURCE, STORAGE, EXECUTORS = "sink", "source", "storage", "executors"


class Weather:
    """What does not work for a while, and how slow the storage is.

    :ivar down: one of the four above, or None.
    :ivar delay_s: of each call to the checkpoint's storage; others go on meanwhile.
    """

    def __init__(self, clock: SimulatedClock) -> None:
        self.down: str | None = None
        self.delay_s = 0.0
        self.on_delay: Callable[[], None] = lambda: None
        self._clock = clock

    def reach(self, what: str, name: str = "") -> None:
        """:raises OSError: it is down."""
        if self.down == what:
            raise OSError(errno.EIO, f"{what} is down", name)

    def delay(self) -> None:
        """A call takes its time."""
        if self.delay_s:
            self._clock.advance(self.delay_s)
            self.on_delay()


class Machine:
    """The disk, the clock, and the processes on them. Which of them runs is :attr:`current`;
    None is the test itself, to whom nothing happens.

    :ivar hides_processes: ``/proc`` shows nobody but oneself.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.faults: Counter[str] = Counter()
        self.clock = SimulatedClock()
        self.weather = Weather(self.clock)
        self.disk = FakeDisk(self.step, lambda: self.clock.now_ms() / 1000, self.touch)
        self.processes: list[Process] = []
        self.current: Process | None = None
        self.hides_processes = False
        self.watchers: list[Callable[[Process, str, str], None]] = []

    def step(self, call: str, path: str) -> None:
        """A step of the current process, before it takes effect."""
        if self.current is not None:
            self.current.step(call, path)
            for watch in self.watchers:
                watch(self.current, call, path)

    def touch(self, path: str) -> None:
        """A call of the current process to the checkpoint's storage, before it takes effect."""
        if self.current is not None and path.startswith("/checkpoint"):
            self.weather.reach(STORAGE, path)
            self.weather.delay()

    def lose_power(self) -> None:
        for process in self.processes:
            process.alive = False
        self.disk.lose_power(self.chance)

    def bury(self) -> None:
        """End the threads of the dead who sleep."""
        for process in self.processes:
            if not process.alive and process.asleep is not None:
                process.die()

    # -- what engine.checkpoint.process asks of this machine

    def identity(self) -> ProcessIdentity:
        assert self.current is not None
        return ProcessIdentity(self.current.host, self.current.pid, f"simulated/{self.current.pid}")

    def hostname(self) -> str:
        return "spark's" if self.current is None else self.current.host

    def start_ticks(self, pid: int) -> str | None:
        hidden = self.hides_processes and self.current is not None and pid != self.current.pid
        return None if hidden or not self.may_exist(pid) else str(pid)

    def may_exist(self, pid: int) -> bool:
        return 0 < pid <= len(self.processes) and self.processes[pid - 1].alive


class SimulatedClock(ManualClock):
    """Others go on while somebody sleeps: ``on_sleep`` is called after the hands were moved."""

    on_sleep: Callable[[], None] = staticmethod(lambda: None)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self.on_sleep()
