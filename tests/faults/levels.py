"""The levels of the fault tests: one module each, with ``run(seed=..., ...) -> LevelResult``."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.faults import l4_spark, l4_standby
from tests.faults.result import LevelResult
from tests.faults.roads import driver, kept


class Level(NamedTuple):
    """:param module: has ``run``.
    :param short: what it is given in the short form, besides the seed: a time, a part of all cases;
        None: it is not part of it.
    :param long: what it is given in the long form.
    """

    module: str
    short: Mapping[str, Any] | None
    long: Mapping[str, Any]
    needs_spark: bool = False


_FEW = (*[l4_spark.WORKER] * 6, l4_spark.OTHER_WORKER, l4_spark.DAEMON, l4_spark.DRIVER)
_MANY = (
    *[l4_spark.WORKER] * 200,
    *[l4_spark.OTHER_WORKER] * 20,
    *[l4_spark.DAEMON] * 10,
    *[l4_spark.DRIVER] * 3,
    *[l4_spark.JVM] * 3,
    *[l4_spark.STOPPED_WORKER] * 3,
    *[l4_spark.ZOMBIE] * 2,
)
_CLUSTER = (*[l4_spark.EXECUTOR] * 10, *[l4_spark.WORKER] * 10, l4_spark.JVM)
_KAFKA = (
    *[l4_spark.WORKER] * 100,
    *[l4_spark.DAEMON] * 5,
    *[l4_spark.DRIVER] * 3,
    *[l4_spark.JVM] * 3,
    *[l4_spark.STOPPED_WORKER] * 3,
    *[l4_spark.ZOMBIE] * 2,
)
_ROAD_LONG = {"faults": 325, "away_s": 65.0, "mutants": True}


def _road(module: str, short: int | None) -> Level:
    """:param short: how many faults the short form plays; None: it is not part of it."""
    road = {"road": module}
    few = None if short is None else {**road, "faults": short}
    return Level("tests.faults.roads.world", few, {**road, **_ROAD_LONG})


_ROADS: Mapping[str, int | None] = {
    "kafka_to_kafka": 3,
    "kafka_to_delta": 2,
    "kafka_to_iceberg": 2,
    "kafka_to_postgres": 2,
    "cdc_to_kafka": 2,
    "files_to_kafka": 2,
    "delta_to_kafka": 2,
    "iceberg_to_kafka": None,  # how a table is followed is that of delta_to_kafka
    "redis_to_redis": 2,
    "redis_to_database": 2,
    "redis_to_http": 2,  # what it reads is that of redis_to_redis
    "mqtt_to_mqtt": 2,
    "tail_to_s3": 2,
    "tail_to_delta": None,  # what it writes to is that of kafka_to_delta
    "queries_with_state:AppendedCounts": None,  # its state is that of the next one
    "queries_with_state:UpdatedCounts": 2,
    "queries_with_state:Sessions": 2,
    "queries_with_state:Deduplicated": 2,
    "queries_with_state:Joined": 2,
    "queries_with_state:Remembered": 2,
    "queries_with_state:CountsInPartitions": 2,
    # What keeps state is that of the ones above, and where that of the last one.
    "queries_with_state:AppendedInPartitions": None,
    "queries_with_state:SessionsInPartitions": None,
    "queries_with_state:DeduplicatedInPartitions": None,
    "queries_with_state:RememberedInPartitions": None,
}


LEVELS = {
    "L0": Level("tests.faults.l0_model", {"seconds": 6}, {"seconds": 240}),
    "L1": Level("tests.faults.l1_failpoints", {"seconds": 10}, {"seconds": 400}),
    "L2": Level("tests.faults.l2_syscalls", {"sample": 16}, {"sample": 400}),
    "L3": Level("tests.faults.l3_torn_files", {"seconds": 5}, {"seconds": 120}),
    "L3 state": Level("tests.faults.l3_torn_snapshots", {"cases_max": 6}, {"seconds": 300}),
    "L4": Level(
        "tests.faults.l4_spark",
        {"faults": _FEW},
        {"faults": _MANY, "stop_s": 30.0},
        needs_spark=True,
    ),
    "L4 cluster": Level(
        "tests.faults.l4_spark",
        None,
        {"faults": _CLUSTER, "master": l4_spark.CLUSTER},
        needs_spark=True,
    ),
    "L4 standby": Level(
        "tests.faults.l4_standby",
        None,  # tests/spark/test_cli_run.py has one
        {"faults": (*[l4_standby.KILLED] * 20, *[l4_standby.SUSPENDED] * 10)},
        needs_spark=True,
    ),
    "L4 state": Level(
        "tests.faults.l4_state",
        None,  # tests/spark has the queries, and the roads of L5 the faults
        {"faults": _KAFKA, "stop_s": 30.0},
        needs_spark=True,
    ),
    "L4 state cluster": Level(
        "tests.faults.l4_state",
        None,
        {"faults": _CLUSTER, "master": l4_spark.CLUSTER, "reducers": 4},
        needs_spark=True,
    ),
    "L4 state in partitions": Level(
        "tests.faults.l4_state",
        None,
        {"faults": _CLUSTER, "master": l4_spark.CLUSTER, "stays": True},
        needs_spark=True,
    ),
    **{f"L5 {road}": _road(road, short) for road, short in _ROADS.items()},
    # Its short form is tests/spark/test_kafka.py, in the Spark that other tests share.
    "L4 Kafka": Level(
        "tests.faults.l4_kafka", None, {"faults": _KAFKA, "stop_s": 30.0}, needs_spark=True
    ),
    "L4 Kafka cluster": Level(
        "tests.faults.l4_kafka",
        None,
        {"faults": _CLUSTER, "master": l4_spark.CLUSTER},
        needs_spark=True,
    ),
    "day": Level(
        "tests.faults.day.run",
        {"keys": 10_000, "seconds": 12, "interval_ms": 200},
        {"keys": 10_000_000, "seconds": 3600, "interval_ms": 5000, "is_long": True},
        needs_spark=True,
    ),
    "mutants": Level("tests.faults.mutants", {}, {}),
}


@contextmanager
def process_of_roads() -> Iterator[ProcessPoolExecutor]:
    """One process for the short forms of all roads: they share a broker, and what is imported."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepare_roads) as process:
        yield process
        process.submit(kept.stop).result()


def _prepare_roads() -> None:
    kept.keep()
    driver.preload(*(road for road, short in _ROADS.items() if short is not None))


def run_short(name: str, process: ProcessPoolExecutor) -> LevelResult:
    """The short form of a road, in the process of all of them."""
    return process.submit(_run, name, 0, False).result()


def run_levels(
    names: Sequence[str], seed: int, *, long: bool, at_once: int = 1
) -> Iterator[LevelResult]:
    """Run these levels, each in a new process: some of them fork, which is safe only where nothing
    has started threads.

    :param at_once: so many beside each other; each result comes when it is there.
    """
    spawn = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(at_once, thread_name_prefix="level") as waiting:

        def in_process(name: str) -> LevelResult:
            with ProcessPoolExecutor(1, mp_context=spawn) as process:
                return process.submit(_run, name, seed, long).result()

        for done in as_completed([waiting.submit(in_process, name) for name in names]):
            yield done.result()


def _run(name: str, seed: int, long: bool) -> LevelResult:
    logging.disable(logging.CRITICAL)  # what the engine says about the faults is not of interest
    level = LEVELS[name]
    began = time.monotonic()
    given = level.long if long else level.short
    assert given is not None, f"{name} has no short form"
    result: LevelResult = importlib.import_module(level.module).run(seed=seed, **given)
    result.seconds = time.monotonic() - began
    return result
