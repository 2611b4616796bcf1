"""A query on a cluster of several hosts, whose source has known records: it counts from 0.

``plain`` writes each number; ``counts`` counts and sums them up by key and second, on two tasks
that take rows from two others (an exchange). Both write Parquet on the disk that all hosts share,
exactly once.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from tests.airflow.spark_cluster import bracketed
from tests.cluster.hosts import Host
from tests.faults.l2_server import environment
from tests.servers.jvm import QUICK
from tests.servers.process import Process
from tests.sink_files import committed, committed_rows
from tests.waiting import wait_until

PLAIN, COUNTS = "plain", "counts"
WAIT_S = 600.0
LEASE_S = 3.0
TASK_TIMEOUT_S = 8
EPOCH_MS = 200
"""A window is out with the second epoch behind its end: the watermark is known with the first."""
_PARTITIONS, _KEYS, _ROWS_PER_SECOND = 2, 8, 80
_SQL = {
    PLAIN: "SELECT value, timestamp FROM source",
    COUNTS: f"""SELECT value % {_KEYS} AS key, window.start AS at, count(*) AS n,
        min(value) AS low, max(value) AS high
        FROM source GROUP BY window(timestamp, '1 second'), value % {_KEYS}""",
}


class QueryOnHosts:
    """See the module.

    :param kind: ``plain`` or ``counts``.
    :param folder: everything of it is there.
    :param master: of Spark.
    :ivar drivers: its processes by their host; whoever came first runs it, others stand by.
    """

    def __init__(self, kind: str, folder: Path, master: str) -> None:
        self.kind, self._folder, self._master = kind, folder, master
        folder.mkdir()
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        self.drivers: dict[str, Process] = {}
        self._hosts: dict[str, Host] = {}

    def start(self, host: Host) -> Process:
        """Have a driver there run it, or stand by."""
        specification = self._folder / f"{host.name}.json"
        specification.write_text(json.dumps(self._document(host)))
        words = [sys.executable, "-m", "engine", "run", "--standby", "--json", str(specification)]
        log = self._folder / f"{host.name}-{time.monotonic_ns()}.log"
        own = {"SPARK_LOCAL_IP": host.address}
        if ":" in host.address:
            own["JAVA_TOOL_OPTIONS"] = "-Djava.net.preferIPv6Addresses=true"
        driver = Process(host.command(words), log, environment={**environment(), **own})
        self.drivers[host.name], self._hosts[host.name] = driver, host
        return driver

    def stand_by(self, host: Host) -> None:
        """Have a driver there stand by, and its executors' Python be warm."""
        driver = self.start(host)
        driver.await_ready(lambda: "standing by" in driver.log.read_text(), WAIT_S)
        driver.await_ready(lambda: _is_warm(host), WAIT_S)

    def ensure_running(self, host: Host, workers: Sequence[Host]) -> None:
        """Have it run on a driver there, with tasks on all of these hosts, and commit.

        A fault may have left all its tasks on one: Spark spreads an application over the workers
        that there are as it begins, and one that was cut off takes its time to be there again.
        """

        def is_spread() -> bool:
            driver = self.drivers.get(host.name)
            if driver is None or not driver.is_alive:
                self.start(host)
            self.await_flow(self.epoch)
            if all((each.address, host.address) in each.python_connections() for each in workers):
                return True
            self.drain()
            return False

        wait_until(is_spread, "its tasks are on all hosts", WAIT_S)

    @property
    def epoch(self) -> int:
        """The newest committed one."""
        return self.checkpoint.committed_epoch()

    @property
    def application(self) -> str | None:
        return self.checkpoint.status().application

    def await_flow(self, behind: int) -> float:
        """Wait until an epoch is committed that began behind this one, with records; how many
        seconds that took. What was open, or prepared, at a fault may be committed without them."""
        began_s = time.monotonic()
        self._await(lambda: self.epoch >= behind + 2, f"epochs behind {behind}")
        return time.monotonic() - began_s

    def await_records_above(self, value: int) -> float:
        """Wait until the sink has a record behind this one; how many seconds that took."""
        began_s, known = time.monotonic(), self.epoch

        def come() -> bool:
            nonlocal known
            if (epoch := self.epoch) == known:
                return False
            known = epoch
            return self.newest() > value

        self._await(come, f"a record behind {value}")
        return time.monotonic() - began_s

    def newest(self) -> int:
        """The largest number that the sink knows of."""
        column = "value" if self.kind == PLAIN else "high"
        return max(committed(self._folder / "out", column), default=-1)

    def assert_each_once(self) -> int:
        """See that the sink has what was read, each once; how many records that are.

        An epoch ends in the middle of the numbers: what is whole is each partition's share, and
        each key's.
        """
        out = self._folder / "out"
        if self.kind == PLAIN:
            numbers = sorted(committed(out, "value"))
            for partition in range(_PARTITIONS):
                share = [each for each in numbers if each % _PARTITIONS == partition]
                assert share == list(range(partition, partition + _PARTITIONS * len(share), 2))
            assert numbers
            return len(numbers)
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for row in committed_rows(out, "key", "low", "high", "n"):
            found[row["key"]].append((row["low"], row["high"], row["n"]))
        assert sorted(found) == list(range(_KEYS))
        for key, windows in found.items():
            wanted = key
            for low, high, count in sorted(windows):
                assert (low, count) == (wanted, (high - low) // _KEYS + 1), (key, windows)
                wanted = high + _KEYS
        return sum(count for windows in found.values() for _, _, count in windows)

    def drain(self) -> None:
        """Ask it to drain; all its drivers end well."""
        self.checkpoint.requests.ask("drain", "a test")
        for driver in self.drivers.values():
            wait_until(lambda driver=driver: not driver.is_alive, "the end of a driver", WAIT_S)
        said = {name: driver.said() for name, driver in self.drivers.items()}
        codes = [driver.code for driver in self.drivers.values()]
        assert codes == [0] * len(codes), said

    def bury(self, host: Host) -> None:
        """Forget the driver of a host that has died."""
        self.drivers.pop(host.name).kill()

    def end(self) -> None:
        """End what still runs of it."""
        for driver in self.drivers.values():
            driver.stop()

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            assert any(each.is_alive for each in self.drivers.values()), self._said()
            return condition()

        try:
            wait_until(looked, what, WAIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._said()}") from None

    def _said(self) -> str:
        return "\n".join(f"{name}: {each.said()}" for name, each in self.drivers.items())

    def _document(self, host: Host) -> dict[str, Any]:
        return {
            "name": f"{self.kind} on hosts",
            "source": {
                "format": "rate",
                "options": {"rowsPerSecond": _ROWS_PER_SECOND, "numPartitions": _PARTITIONS},
                "watermark": {"column": "timestamp", "delay": "0 seconds"},
            },
            "sql": _SQL[self.kind],
            "sink": {
                "format": "parquet",
                "options": {
                    "path": str(self._folder / "out"),
                    "leaseHeartbeatMs": int(LEASE_S * 100),
                    "taskTimeoutS": TASK_TIMEOUT_S,
                    "partitionsPerTask": 1,
                    **({"reducers": 2} if self.kind == COUNTS else {}),
                },
            },
            "trigger": {"continuous": f"{EPOCH_MS} milliseconds"},
            "checkpoint_location": self.checkpoint.storage.url,
            "conf": {
                "spark.master": self._master,
                "spark.driver.host": bracketed(host.address),
                "spark.driver.memory": "512m",
                "spark.ui.enabled": "true",  # it tells of a standby's jobs
                "spark.driver.extraJavaOptions": " ".join(QUICK),
                "spark.executor.extraJavaOptions": " ".join(QUICK),
                "spark.executor.memory": "512m",
                "spark.executor.cores": "2",
                "spark.cores.max": "4",
                "spark.executor.heartbeatInterval": "3s",
                "spark.network.timeout": "20s",
                "spark.network.timeoutInterval": "5s",
            },
        }


def _is_warm(host: Host) -> bool:
    """Whether the standby there has warmed its executors: its Spark, the only one there, tells of
    the job."""
    base = f"http://{bracketed(host.address)}:4040/api/v1/applications"
    jobs = [job for each in host.ask(base) for job in host.ask(f"{base}/{each['id']}/jobs")]
    return any(
        job.get("jobGroup") == "continuous-standby" and job["status"] == "SUCCEEDED" for job in jobs
    )
