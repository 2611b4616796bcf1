"""The wire between two hosts whose cable is cut: no RST tells either end, and neither hangs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hosts import Host, Hosts, NoHostsError
from tests.faults.l2_server import environment
from tests.servers.process import Process
from tests.waiting import wait_until

SILENCE_S = 10
WAIT_S = 90.0
"""Far less than the quarter of an hour for which Linux sends again what is not acknowledged."""


@pytest.fixture(params=[False, True], ids=["IPv4", "IPv6"])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    try:
        with Hosts("driver", "task", ipv6=request.param) as hosts:
            yield hosts
    except NoHostsError as error:
        pytest.skip(str(error))


def started(host: Host, module: str, folder: Path, *arguments: str) -> Process:
    words = [sys.executable, "-m", f"tests.cluster.{module}", *arguments]
    return Process(host.command(words), folder / f"{module}.log", environment=environment())


def test_both_ends_notice_that_the_other_machine_is_gone(hosts: Hosts, tmp_path: Path) -> None:
    driver = started(
        hosts["driver"], "half_open_driver", tmp_path, hosts["driver"].address, str(SILENCE_S)
    )
    driver.await_ready(lambda: driver.said().count("\n"), WAIT_S)
    task = started(hosts["task"], "half_open", tmp_path, *driver.said().split()[:3], str(SILENCE_S))
    own = hosts["task"].address
    task.await_ready(lambda: f"connected from {own}\n" in task.said(), WAIT_S)
    driver.await_ready(lambda: "TaskStarted" in driver.said(), WAIT_S)
    hosts["driver"].cut()
    wait_until(lambda: not driver.is_alive, "the driver misses its task", WAIT_S)
    wait_until(lambda: not task.is_alive, "the task misses its driver", WAIT_S)
    assert "silent: [0]" in driver.said()
    assert "the driver is gone" in task.said() or "cannot be reached" in task.said()
