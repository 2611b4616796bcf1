"""The process that faults befall: the whole engine, on threads."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from engine.base import failpoints
from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.execution.definition import QueryDefinition
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.query.handle import ContinuousQuery
from engine.sinks.contract import SinkBinding, TaskWriter
from tests.faults.roads.road import Setup, module_of

INTERVAL_MS = 50
HEARTBEAT_MS = 100
LEASE_S = 15 * HEARTBEAT_MS / 1000
"""By then the lease of a driver that is suspended has expired."""
DEADLINE_S = 180.0
_forks = multiprocessing.get_context("forkserver")


_preloaded = {__name__: None}


def preload(*roads: str) -> None:
    """Import what the processes of these roads need once, before the first of them is started."""
    _preloaded.update(dict.fromkeys(module_of(road) for road in roads))
    _forks.set_forkserver_preload(list(_preloaded))


class Driver:
    """See above.

    :param armed: where it is killed, or suspended: :mod:`engine.base.failpoints`.
    """

    def __init__(self, setup: Setup, armed: str = "") -> None:
        self._said = Path(setup.folder) / f"said-{time.monotonic_ns()}"
        self._process = _forks.Process(target=_run, args=(setup, armed, str(self._said)))
        self._process.start()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def check(self) -> None:
        """:raises ChildProcessError: it has ended."""
        if not self._process.is_alive():
            raise ChildProcessError(f"the driver has ended: {self._says()}")

    def await_stop(self, seconds: float) -> None:
        """Or suspend it, when the time is over."""
        assert self._process.pid is not None
        process, deadline_s = psutil.Process(self._process.pid), time.monotonic() + seconds
        while process.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline_s:
            threading.Event().wait(0.02)
        self.signal(signal.SIGSTOP)

    def await_death(self, seconds: float) -> None:
        """Or until the time is over."""
        self._process.join(seconds)

    def await_end(self) -> None:
        """:raises ChildProcessError: it does not end."""
        self._process.join(DEADLINE_S)
        if self._process.is_alive():
            raise ChildProcessError(f"the driver does not end: {self._says()}")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _says(self) -> str:
        return self._said.read_text()[-2_000:] if self._said.exists() else "nothing"


def _run(setup: Setup, armed: str, said: str) -> None:
    logging.disable(logging.CRITICAL)
    if setup.mutant:
        setup.road.mutants[setup.mutant]()
    failpoints.arm(armed)
    failing = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: failing.set())
    with Path(said).open("w", buffering=1) as out:
        try:
            execution = ContinuousExecution(_definition(setup, failing), ThreadLauncher())
            execution.start()
            query = ContinuousQuery(execution, str)
            pause = threading.Event()
            while query.isActive and not setup.drain.exists():
                pause.wait(0.02)
            if setup.drain.exists():
                query.processAllAvailable()
                query.drain(DEADLINE_S)
            out.write(json.dumps({"error": str(query.exception())}))
        except Exception as exc:
            out.write(f"{type(exc).__name__}: {exc}")


def _definition(setup: Setup, failing: threading.Event) -> QueryDefinition:
    return QueryDefinition(
        name=None,
        streams=setup.road.streams(setup),
        stages=setup.road.stages(setup),
        sink=_with_failures(setup.road.sink(setup), failing),
        checkpoint=Checkpoint(setup.checkpoint),
        epoch_interval_ms=INTERVAL_MS,
        options=EngineOptions(
            lease_heartbeat_ms=HEARTBEAT_MS,
            restart_delay_ms=10,
            restart_delay_max_ms=2_000,  # outages come quicker here than they are made good
            **setup.road.options(setup),
        ),
    )


def _with_failures(sink: SinkBinding, failing: threading.Event) -> SinkBinding:
    return replace(sink, writer=_Failing(sink.writer, failing))


class _Failing(TaskWriter):
    """A writer whose task fails between two batches when it is told so."""

    def __init__(self, writer: TaskWriter, failing: threading.Event) -> None:
        self._writer, self._failing = writer, failing
        self.open, self.committed = writer.open, writer.committed  # type: ignore[method-assign]
        self.aborted, self.close = writer.aborted, writer.close  # type: ignore[method-assign]

    def __copy__(self) -> _Failing:
        return _Failing(copy(self._writer), self._failing)

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Any:
        return self._writer.write(epoch, self._failing_between(batches))

    def _failing_between(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if self._failing.is_set():
                self._failing.clear()
                raise OSError("the task has failed")
