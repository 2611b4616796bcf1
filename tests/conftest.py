"""Which tests belong together when several processes share the suite (``pytest -n 3``), and the
server that tests of several folders need.

What is dear is started once: all tests of the shared Spark go to one process, all of the shared
Airflow to one, all of the shared Kafka to one. Every other test file stays whole, for the fixtures
of its module.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from engine.sinks.epoch_context import EpochContext
from engine.spark.class_archive import OPTIONS, use_archive
from engine.spark.java import find_java
from tests import sampling
from tests.servers.jvm import QUICK
from tests.servers.s3 import S3, s3_server

# Where the environment forbids to keep bytecode, each of the hundreds of processes that tests start
# would compile all that it imports; `make` allows it, and so does who calls pytest.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The archive that `make install` has made halves the starts of JVMs once more.
if OPTIONS not in os.environ:  # the processes of xdist inherit it
    os.environ[OPTIONS] = " ".join(QUICK)
    if (_java := find_java()) is not None:
        use_archive(_java)

# An example may take as long as the machine lets it: by default one of 200 ms has failed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_SHARED = {
    "tests/spark/": "spark",
    "tests/parity/": "parity",  # a Spark of its own: one process for both had work when none had
    "tests/airflow/live/": "airflow",
    "tests/connectors/kafka/": "kafka",
    "tests/connectors/databases/": "postgres",
    "tests/connectors/postgres/": "postgres",
    "tests/connectors/sqlalchemy/": "postgres",
}
_APART = (
    "tests/spark/test_cli_run.py",
    "tests/spark/test_docs.py",
    "tests/spark/test_init.py",
    "tests/spark/test_metrics_run.py",
    "tests/spark/test_session.py",
    "tests/spark/test_signals.py",
    "tests/spark/test_workers.py",
)
"""These start a Spark of their own, for each test: they need not wait for the shared one's."""
_LONG = (
    "tests/airflow/live/",
    "tests/spark/",
    "tests/parity/",
    "tests/system/",
    "tests/airflow_faults/",
    "tests/docker/",
    "tests/connectors/",
    "tests/airflow/",
    "tests/faults/",
)
"""These begin first: what is left at the end is short, so that no process waits for the other."""
_ALONE = "tests/faults/test_faults_short.py"
"""Each of its tests is long, and needs nothing of the others but for those that share a broker."""
_ROAD = "::test_every_promise_of_a_road_"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A server of S3's protocol; each test takes a bucket of its own."""
    pytest.importorskip("moto.server", reason="needs moto[server]")
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        sampling.OPTION,
        action="store_true",
        help="of the tests that are marked as sampled a share, drawn by the code (make test)",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption(sampling.OPTION):
        return None
    return (
        "of what is marked as sampled a share is played, drawn by the code of engine and provider "
        f"({sampling.seed_of_code():08x}); all of it: make test-whole"
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: it is not looked through for garbage, again and again."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.leave_out(config, items)

    def rank(item: pytest.Item) -> int:
        found = (place for place, folder in enumerate(_LONG) if item.nodeid.startswith(folder))
        return next(found, len(_LONG))

    items.sort(key=rank)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Behind the fixtures' own ends: what stays on this thread would be another test's epoch."""
    left = EpochContext.get()
    EpochContext.set(None)
    assert left is None, f"{item.nodeid} leaves {left} behind"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByResource(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            if path in _APART:
                return path
            shared = (name for folder, name in _SHARED.items() if path.startswith(folder))
            return next(shared, nodeid if path == _ALONE and _ROAD not in nodeid else path)

    return ByResource(config, log)
