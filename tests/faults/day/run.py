"""A day in an hour: counts by key and hour, and sessions, while the day's time goes by faster.

Memory and checkpoints stay as large as they were. In the evening a worker is killed, and then the
driver. In the end all that has closed is what a batch computation finds.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint
from tests.faults.day.driver import COUNTS, SESSIONS, Setup
from tests.faults.day.rows import HOURS, Sums
from tests.faults.day.sums import ByHour, written
from tests.faults.day.watching import Reports, Sample, most, resident_mib, size_mib
from tests.faults.l4_processes import DEADLINE_S, Driver, bury, told_in
from tests.faults.l4_spark import DRIVER, WORKER
from tests.faults.result import LevelResult
from tests.waiting import wait_until

_QUERIES = COUNTS, SESSIONS
_BEFORE, _AFTER = (6, 12), (13, 19)
"""Hours that are compared; in the first ones there is less to keep, and later ones have faults."""
_SIZES = {
    "tasks": "memory of the tasks",
    "driver": "memory of driver, JVM and daemon",
    "checkpoints": "checkpoints on disk",
}
"""What may not grow, of a :class:`Sample`."""
_WORKER_HOUR, _DRIVER_HOUR = 19, 21
_GROWTH_MAX = 1.15
_SAMPLES = 400
"""Of a day: looking costs time, too."""


def run(
    *,
    keys: int,
    seconds: int,
    interval_ms: int,
    seed: int = 0,
    partitions: int = 2,
    reducers: int = 2,
    is_long: bool = False,
) -> LevelResult:
    """
    :param seed: which worker is killed.
    :param is_long: some rows are late, the driver is killed, too, and neither memory nor
        checkpoints may grow. On a short day they do, as Python and the JVM come to their size.
    """
    result = LevelResult(f"a day of {keys:,} keys in {seconds:,} s", seeds=[seed])
    folder = Path(tempfile.mkdtemp(prefix="day-"))
    setup = Setup(str(folder), keys, is_long, seconds, partitions, reducers, interval_ms)
    day = _Day(setup, result, seed)
    with told_in(result, folder, day.end):
        day.pass_by(with_driver=is_long)
        day.compare()
        if is_long:
            day.check_growth()
    return result


class _Day:
    def __init__(self, setup: Setup, result: LevelResult, seed: int) -> None:
        self._setup, self._result, self._chance = setup, result, random.Random(seed)
        self._reports = {query: Reports(setup.reports(query)) for query in _QUERIES}
        self._samples: list[Sample] = []
        self._looked_s = 0.0
        self._driver: Driver | None = None

    def pass_by(self, *, with_driver: bool) -> None:
        """From midnight until all of the day is closed; a worker is killed.

        :param with_driver: whether the driver is, too.
        """
        self._start()
        self._await_hour(_WORKER_HOUR)
        self._kill_worker()
        if with_driver:
            self._await_hour(_DRIVER_HOUR)
            self._kill_driver()
        self._await_hour(HOURS)
        self._setup.drain.touch()
        if (code := self.driver.await_end(2 * DEADLINE_S)) != 0:
            raise ChildProcessError(f"the drain ended with {code}")
        self._tell()

    def compare(self) -> None:
        """What came out by what is to come."""
        rows = self._setup.rows
        counts: ByHour = {}
        for hour in range(1, HOURS + 1):
            counts |= rows.counts(hour)
        sessions: ByHour = defaultdict(Sums)
        for part in rows.sessions():
            for hour, sums in part.items():
                sessions[hour] += sums
        for query, expected in ((COUNTS, counts), (SESSIONS, sessions)):
            found = written(self._setup.sums(query))
            for hour in range(1, HOURS + 1):
                self._compare(query, hour, found.get(hour, Sums()), expected[hour])

    def _compare(self, query: str, hour: int, found: Sums, expected: Sums) -> None:
        self._result.records += expected.rows
        self._result.lost += max(0, expected.rows - found.rows)
        self._result.repeated += max(0, found.rows - expected.rows)
        if found != expected:
            what = f"{query}, hour {hour}: {found} in place of {expected}"
            self._result.broken.append(what)

    def check_growth(self) -> None:
        """Neither memory nor checkpoints are larger in the afternoon than in the morning."""
        for size, what in _SIZES.items():
            before, after = (most(self._samples, size, *hours) for hours in (_BEFORE, _AFTER))
            if not before or after > before * _GROWTH_MAX:
                self._result.broken.append(f"{what}: {before} MiB, {after} MiB hours later")

    def end(self) -> None:
        """Nothing is left running."""
        if self._driver is not None:
            self._driver.end()

    @property
    def driver(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _start(self) -> None:
        driver = self._driver = Driver(self._setup, "tests.faults.day.driver")
        wait_until(lambda: driver.has_started, "the queries start", DEADLINE_S)

    # -- what is seen -----------------------------------------------------------------------------

    def _look(self) -> None:
        """:raises ChildProcessError: the driver has ended."""
        self.driver.check()
        for reports in self._reports.values():
            reports.read()
        if (now_s := time.monotonic()) - self._looked_s >= self._setup.seconds / _SAMPLES:
            self._looked_s = now_s
            self._samples.append(self._sample())

    def _sample(self) -> Sample:
        workers = set(self.driver.workers())
        processes = self.driver.below()
        return Sample(
            self._hour,
            resident_mib(each for each in processes if each.pid not in workers),
            resident_mib(each for each in processes if each.pid in workers),
            size_mib(self._setup.checkpoint(query) for query in _QUERIES),
            sum(reports.keys for reports in self._reports.values()),
        )

    @property
    def _hour(self) -> float:
        return min(reports.hour for reports in self._reports.values())

    def _await_hour(self, hour: int) -> None:
        def has_come() -> bool:
            self._look()
            return self._hour >= hour

        wait_until(has_come, f"the watermark is at hour {hour}", 2 * self._setup.seconds + 600)

    def _tell(self) -> None:
        figures = self._result.figures
        for reports in self._reports.values():
            reports.read()
        figures["rows read"] = sum(each.rows for each in self._reports.values())
        figures["rows left out, late"] = sum(each.late for each in self._reports.values())
        figures["keys in the state, at most"] = most(self._samples, "keys", 0, HOURS)
        for first, last in (_BEFORE, _AFTER):
            for size, what in _SIZES.items():
                found = most(self._samples, size, first, last)
                figures[f"{what}, most of hours {first} to {last}, MiB"] = found

    # -- faults -----------------------------------------------------------------------------------

    def _kill_worker(self) -> None:
        began_s = time.monotonic()
        os.kill(self._chance.choice(sorted(self.driver.workers())), signal.SIGKILL)
        self._await_commits(WORKER, began_s)

    def _kill_driver(self) -> None:
        left, began_s = self.driver.below(), time.monotonic()
        os.kill(self.driver.pid, signal.SIGKILL)
        self.driver.await_end()
        if orphans := bury(left):
            self._result.broken.append(f"{DRIVER}: these did not end: {orphans}")
        self._start()
        self._await_commits(DRIVER, began_s)

    def _await_commits(self, fault: str, began_s: float) -> None:
        """Until both queries have committed two epochs more: one may have been on its way."""
        self._result.faults[fault] += 1
        logs = [Checkpoint(str(self._setup.checkpoint(query))).commits for query in _QUERIES]
        before = [log.latest_id() or 0 for log in logs]

        def go_on() -> bool:
            self.driver.check()
            return all((log.latest_id() or 0) > n + 1 for log, n in zip(logs, before, strict=True))

        wait_until(go_on, "both queries go on", DEADLINE_S)
        all_back = f"ms until all is back: {fault}"
        self._result.outcomes[all_back] = round((time.monotonic() - began_s) * 1000)
