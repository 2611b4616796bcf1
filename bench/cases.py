"""What is measured: every case, and the parts in which they are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench import (
    cold,
    commits,
    coordinator,
    count_latency,
    counts_in_partitions,
    deduplicated,
    epochs,
    exchange,
    expressions,
    functions,
    idle,
    joined,
    joined_latency,
    kafka_delta,
    kafka_functions,
    kafka_latency,
    kafka_parquet,
    kafka_postgres,
    kafka_throughput,
    latency,
    listing,
    restarts,
    sensors,
    snapshots,
    state_restarts,
    takeovers,
    throughput,
    windowed_counts,
    windows,
    wire,
)
from bench.peers import counts as peer_counts
from bench.peers import latency as peer_latency


@dataclass(frozen=True)
class Case:
    """One benchmark, a module with a function ``main(engine)``.

    :param engines: what is measured in turn. If ``compares``, the first is ours and the others are
        what it is compared with.
    :param text: what, and in which unit.
    :param more_is_better: of all its figures, or of these.
    :param by_yardstick: it is a matter of this machine's cores alone, so that figures can be
        compared with those of another time by what a fixed piece of work took beside them.
    :param with_kafka: its runs share a broker.
    """

    engines: tuple[str, ...]
    text: str
    compares: bool = False
    more_is_better: bool | tuple[str, ...] = False
    by_yardstick: bool = False
    with_kafka: bool = False

    def is_better_with_more(self, figure: str) -> bool:
        """Whether more of it is better."""
        if isinstance(self.more_is_better, bool):
            return self.more_is_better
        return figure in self.more_is_better


@dataclass(frozen=True)
class Part:
    """Cases that are told, and can be measured, together."""

    title: str
    cases: tuple[str, ...]


CASES: Mapping[str, Case] = {
    # Beside Spark's own modes
    "throughput": Case(
        throughput.ENGINES,
        "rate → filter → 3 projections → noop, 2 partitions",
        compares=True,
        more_is_better=True,
    ),
    "latency": Case(
        latency.ENGINES,
        "rate at 1,000 rows/s: from a row's own timestamp to the writer's hands, ms; of Spark in "
        "whole ms, to its last projection",
        compares=True,
    ),
    "functions": Case(
        functions.ENGINES,
        "the rows of Latency to the call of a Python function, epochs of 3 s, ms",
        compares=True,
    ),
    "cold": Case(
        cold.ENGINES,
        "from a new process to the first result: the first epoch of `continuous run`, and the "
        "first Python job of a Spark session, s",
        compares=True,
    ),
    # Expressions of a task
    "expressions": Case(
        expressions.ENGINES,
        "expressions in ANSI mode, of a batch in memory, the best of many calls: µs a batch, ns a "
        "row of 100,000",
        by_yardstick=True,
    ),
    # Epochs, and who drives them
    "coordinator": Case(
        coordinator.ENGINES,
        "the pure coordinator: epochs per second of CPU",
        by_yardstick=True,
        more_is_better=True,
    ),
    "wire": Case(
        wire.ENGINES,
        "the driver's end of the wire, epochs of a second: CPU as a share of a core, when a marker "
        "is at a task, ms",
        by_yardstick=True,
    ),
    "epochs": Case(
        epochs.ENGINES,
        "what epochs cost: CPU of driver, JVM and workers together, % of a core",
    ),
    # The checkpoint's storage
    "commits": Case(
        commits.ENGINES,
        "the commit of an epoch, ms; `calls` are the requests in a row until it is visible, `late` "
        "how far behind its second the last epoch began",
    ),
    "restarts": Case(
        restarts.ENGINES,
        "a restart in place until it is known where to go on, s, with 100 epochs kept and the last "
        "one open; `calls` are all requests, some of them at once",
    ),
    "takeovers": Case(
        takeovers.ENGINES,
        "a driver is killed: until an epoch is committed that was not under way, s, by a standby "
        "on the same machine, and by a query that is started at that moment",
        compares=True,
    ),
    "idle": Case(
        idle.ENGINES,
        "requests to S3 per minute of a query that reads nothing",
    ),
    # Windows, joins and their state
    "windowed_counts": Case(
        windowed_counts.ENGINES,
        "rate → count by window of ten seconds and key, update mode → noop, two readers by two "
        "reducers: rows/s",
        compares=True,
        more_is_better=True,
    ),
    "counts_in_partitions": Case(
        counts_in_partitions.ENGINES,
        "the same with keys that are each in one partition, counted where they are read "
        "(`keysStayInPartitions`), and behind an exchange: rows/s",
        compares=True,
        more_is_better=True,
    ),
    "count_latency": Case(
        count_latency.ENGINES,
        "the count with an exchange at 10,000 rows/s with 10,000 keys: from a row's own timestamp "
        "to the count that it has changed, ms; of Spark in whole ms",
        compares=True,
    ),
    "deduplicated": Case(
        deduplicated.ENGINES,
        "rate → dropDuplicates by a key of 1,000,000 → noop: rows/s",
        compares=True,
        more_is_better=True,
    ),
    "joined": Case(
        joined.ENGINES,
        "two streams of rate, joined by key within a minute of event time → noop: rows/s of both "
        "together",
        compares=True,
        more_is_better=True,
    ),
    "joined_latency": Case(
        joined_latency.ENGINES,
        "the same at 10,000 rows/s of each, from the timestamp of the later row to the pair, ms",
        compares=True,
    ),
    "state_restarts": Case(
        state_restarts.ENGINES,
        "a restart in place of a windowed count, from the kill of a worker until an epoch is "
        "committed that was not under way, s",
    ),
    "windows": Case(
        windows.ENGINES,
        "a windowed count by key, the stage alone, on one core: rows/s that are folded in front of "
        "the exchange, and that are counted behind it; µs for a batch of 10 rows with its results; "
        "ms for the snapshot of 1,000 changed keys, for loading all, for closing all",
        by_yardstick=True,
        more_is_better=("partial", "grouped"),
    ),
    "exchange": Case(
        exchange.ENGINES,
        "the exchange alone, between two processes: one way of a batch, µs; rows per second of CPU "
        "of each side, HMACs included",
        by_yardstick=True,
        more_is_better=("sent", "received"),
    ),
    "snapshots": Case(
        snapshots.ENGINES,
        "the snapshot of an epoch of a windowed count with 1,000,000 keys in one task: how long "
        "the reducer pauses, and the writing beside the next epoch, ms; the file's bytes",
        by_yardstick=True,
    ),
    # Kafka and tables
    "kafka_latency": Case(
        kafka_latency.ENGINES,
        "Kafka → filter, upper → Kafka, 1,000 records/s, a warm broker on the same cores, from "
        "when a record was due to a consumer of the results, ms",
        compares=True,
        with_kafka=True,
    ),
    "kafka_functions": Case(
        kafka_functions.ENGINES,
        "the query of Kafka latency with a Python function, ms",
        compares=True,
        with_kafka=True,
    ),
    "kafka_throughput": Case(
        kafka_throughput.ENGINES,
        "Kafka → filter, upper → Kafka, 3,000,000 records of 90 bytes that are there: rows/s",
        compares=True,
        more_is_better=True,
        with_kafka=True,
    ),
    "kafka_parquet": Case(
        kafka_parquet.ENGINES,
        "the records of Kafka throughput to Parquet files, from the start of the query until all "
        "is committed: rows/s",
        compares=True,
        more_is_better=True,
        with_kafka=True,
    ),
    "kafka_delta": Case(
        kafka_delta.ENGINES,
        "the same records to a Delta table: rows/s",
        compares=True,
        more_is_better=True,
        with_kafka=True,
    ),
    "kafka_postgres": Case(
        kafka_postgres.ENGINES,
        "the same records to a table of PostgreSQL on the same cores, ours by COPY and exactly "
        "once, Spark's by JDBC from foreachBatch: rows/s",
        compares=True,
        more_is_better=True,
        with_kafka=True,
    ),
    # Airflow's side
    "sensors": Case(
        sensors.ENGINES,
        "1,000 deferred sensors in one triggerer, looks 1 s apart: CPU as a share of a core, when "
        "an epoch is detected, ms",
    ),
    "listing": Case(
        listing.ENGINES,
        "the list of 1,000 queries as Airflow's page asks for it, on storage of which each call "
        "takes 50 ms: s until it is there, and a moment later; calls of both",
    ),
    # Beside other engines
    "peer_counts": Case(
        peer_counts.ENGINES,
        "Kafka → count by key in windows of ten seconds of event time, written when a window has "
        "closed → Kafka: records of JSON in 1,000 keys that are there, rows/s of the closed "
        "windows from the first ones on; each engine alone beside the broker, with two tasks, "
        "processes or threads, at least once, with settings for low latency (`bench/peers/flows`)",
        compares=True,
        more_is_better=True,
        with_kafka=True,
    ),
    "peer_latency": Case(
        peer_latency.ENGINES,
        "the same at 1,000 records/s, updated counts written at once: from when a record was due "
        "to a consumer that sees it counted, ms. Bytewax, Flink and Quix write a count for each "
        "record, the others what has changed in a batch; Bytewax, Flink and Pathway never drop one",
        compares=True,
        with_kafka=True,
    ),
}
PARTS: Mapping[str, Part] = {
    "first": Part("Beside Spark's own modes", ("throughput", "latency", "functions", "cold")),
    "expressions": Part("Expressions of a task", ("expressions",)),
    "coordinator": Part("Epochs, and who drives them", ("coordinator", "wire", "epochs")),
    "storage": Part("The checkpoint's storage", ("commits", "restarts", "takeovers", "idle")),
    "state": Part(
        "Windows, joins and their state",
        (
            "windowed_counts",
            "counts_in_partitions",
            "count_latency",
            "deduplicated",
            "joined",
            "joined_latency",
            "state_restarts",
            "windows",
            "exchange",
            "snapshots",
        ),
    ),
    "connectors": Part(
        "Kafka and tables",
        (
            "kafka_latency",
            "kafka_functions",
            "kafka_throughput",
            "kafka_parquet",
            "kafka_delta",
            "kafka_postgres",
        ),
    ),
    "provider": Part("Airflow's side", ("sensors", "listing")),
    "peers": Part("Beside other engines", ("peer_counts", "peer_latency")),
}
MODULES: Mapping[str, str] = {
    "peer_counts": "bench.peers.counts",
    "peer_latency": "bench.peers.latency",
}
"""Of those that are not a file of this folder."""


def module_of(case: str) -> str:
    """Where its ``main`` is."""
    return MODULES.get(case, f"bench.{case}")


def chosen(names: Iterable[str]) -> list[str]:
    """The cases of these parts, and these cases, in the page's order; of no name, all.

    :param names: each may be several, with commas between. Where a part and a case have one name,
        it is the part's.
    :raises ValueError: one is neither; names all there are.
    """
    wanted: set[str] = set()
    for name in (each for given in names for each in given.split(",") if each):
        if name in PARTS:
            wanted |= set(PARTS[name].cases)
        elif name in CASES:
            wanted.add(name)
        else:
            raise ValueError(
                f"{name} is neither a part, {', '.join(PARTS)}, nor a case, {', '.join(CASES)}"
            )
    return [case for case in CASES if case in wanted] if wanted else list(CASES)
