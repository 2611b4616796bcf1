"""One Spark for all tests that need one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from engine.execution.execution import ContinuousExecution
from engine.spark.session import prepare_environment
from tests.servers.jars import NoJarsError
from tests.servers.kafka import Kafka, running_kafka

END_S = 120
DEEP = "-Xss4m"
"""A thread's usual stack just holds Spark as it writes a VARIANT that is nested 1,000 deep, and at
times, as the JVM has compiled it, does not: where it overflows, Spark ends the JVM."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One for all tests."""
    session = start()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _nothing_goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test that has failed leaves running would hold the slots of the next ones."""
    started: list[ContinuousExecution] = []
    right = ContinuousExecution.start

    def start(self: ContinuousExecution) -> None:
        right(self)
        started.append(self)

    monkeypatch.setattr(ContinuousExecution, "start", start)
    yield
    for each in started:
        each.stop()
        assert each.await_termination(END_S), f"{each.query_id} does not end"
    if (session := SparkSession.getActiveSession()) is not None:
        for query in session.streams.active:
            query.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One broker for all tests."""
    try:
        with running_kafka(tmp_path_factory.mktemp("kafka") / "broker") as kafka:
            yield kafka
            gc.collect()  # a sink ends its connection when nobody has the query any more
    except NoJarsError as exc:
        pytest.skip(f"no Kafka: {exc}")


def start(*, slots: int = 2, **more: str) -> SparkSession:
    """A local session: 2 task slots, session time zone UTC, ANSI mode on (Spark's default).

    :param slots: tasks that run at a time.
    :param more: settings, ``__`` in place of dots.
    """
    prepare_environment()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.config("spark.driver.extraJavaOptions", DEEP)
    for name, value in more.items():
        builder = builder.config(name.replace("__", "."), value)
    session = (
        builder.master(f"local[{slots}]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.python.daemon.module", "engine.spark.daemon")  # quick workers
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
