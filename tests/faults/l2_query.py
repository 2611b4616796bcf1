"""A query without a JVM whose driver and tasks are processes of their own: ``tail`` to Parquet."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ContinuousError, TaskLostError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import LaunchedTasks, OnEnd
from engine.execution.slots import LOCAL, Slots
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.files.data_source import ParquetDataSource
from engine.sources.tail.data_source import TailDataSource
from engine.task.loop import run_task
from engine.task.spec import TaskSpec
from tests.faults import l2_server
from tests.faults.l2_oracle import Ends, SourceFiles
from tests.faults.l2_server import Child, Trace

WAIT_S = 120.0
LEAVE_TIMEOUT_S = 5.0
SPARK_SCHEMA = StructType(
    [StructField("p", IntegerType()), StructField("s", LongType()), StructField("h", StringType())]
)
_OPTIONS = EngineOptions(
    lease_heartbeat_ms=50,
    restart_delay_ms=10,
    restart_delay_max_ms=100,
    retry_infrastructure_for_ms=2_000,
    retry_storage_for_ms=2_000,
    retry_source_for_ms=2_000,
    retry_sink_for_ms=1_000,
)


@dataclass(frozen=True)
class Plan:
    """What a driver is to do.

    :param driver: strace for the driver, from its first step on.
    :param running: the same, from when its first epoch is committed.
    :param worker: strace for the first task.
    :param ends: it ends when so many records of each partition are committed.
    """

    server: str
    source: Path
    out: Path
    checkpoint: Path
    ends: Ends
    rows_per_second: int
    interval_ms: int = 20
    driver: Trace | None = None
    running: Trace | None = None
    worker: Trace | None = None


@dataclass(frozen=True)
class Outcome:
    """What a driver tells of itself at its end.

    :param error: class and text of what ended the query.
    :param ours: whether it is an error of the engine.
    :param restarts: whether a task that was lost was to be replaced: all had run at once, and no
        drain was asked for, which does not begin anew.
    """

    error: str | None
    ours: bool
    restarts: bool


def drive(plan: Plan) -> Outcome:
    """Run the query until the whole source is committed, or it fails."""
    logging.basicConfig(level=logging.WARNING)
    l2_server.attach(plan.server, plan.driver)
    execution, draining = None, False
    try:
        execution = ContinuousExecution(_definition(plan), ForkLauncher(plan.server, plan.worker))
        execution.start()
        query = ContinuousQuery(execution, str)
        if plan.running is not None:
            query.awaitEpoch(execution.committed_epoch + 1, WAIT_S)
            l2_server.attach(plan.server, plan.running)
        _await_the_end_of_the_source(query, plan)
        draining = True
        query.drain(WAIT_S)
    except ContinuousError as exc:
        restarts = execution is not None and execution.has_run and not draining
        return Outcome(f"{type(exc).__name__}: {exc}", True, restarts)
    except BaseException as exc:
        logging.exception("not an error of the engine")
        return Outcome(f"{type(exc).__name__}: {exc}", False, False)
    return Outcome(None, True, True)


def _await_the_end_of_the_source(query: ContinuousQuery, plan: Plan) -> None:
    source = SourceFiles(plan.source, len(plan.ends))
    while True:
        epoch = query.status["epoch"]
        progress = query.lastProgress
        if progress is not None:
            end = json.loads(progress["sources"][0]["endOffset"])
            if source.ends_of(end) == plan.ends:
                return
        if not query.awaitEpoch(epoch + 1, WAIT_S):
            raise TimeoutError(f"epoch {epoch + 1} does not come: {query.status}")


def _definition(plan: Plan) -> QueryDefinition:
    options = {
        "path": str(plan.source),
        "fileFormat": "json",
        "numPartitions": str(len(plan.ends)),
        "maxRowsPerSecond": str(plan.rows_per_second),
    }
    arrow_schema = to_arrow(SPARK_SCHEMA, "test")
    reader = TailDataSource(options).continuousReader(SPARK_SCHEMA)
    pipeline = Pipeline(SourceRelation("tail", {}, arrow_schema), (), arrow_schema)
    sink = ParquetDataSource({"path": str(plan.out)}).streamWriter(SPARK_SCHEMA, overwrite=False)
    return QueryDefinition(
        name=None,
        streams=(StreamBinding(pipeline, reader, "tail"),),
        sink=bind_writer(sink, "parquet"),
        checkpoint=Checkpoint(str(plan.checkpoint)),
        epoch_interval_ms=plan.interval_ms,
        options=_OPTIONS,
    )


class ForkLauncher:
    """A process per task.

    :param trace: for the first task that is ever launched.
    """

    host = "127.0.0.1"
    bind_host: str | None = None
    supply = LOCAL
    application: str | None = None
    application_url: str | None = None

    def __init__(self, server: str, trace: Trace | None) -> None:
        self._server, self._trace = server, trace

    def slots(self) -> Slots | None:
        return None

    def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
        traces = [self._trace, *[None] * len(specs)]
        self._trace = None
        return _Children(
            [
                l2_server.start(self._server, task, self._server, spec, trace)
                for spec, trace in zip(specs, traces, strict=False)
            ],
            on_end,
        )


class _Children:
    def __init__(self, children: Sequence[Child], on_end: OnEnd) -> None:
        self._children = children
        self._watch = threading.Thread(target=self._wait, args=(on_end,), daemon=True)
        self._watch.start()

    def _wait(self, on_end: OnEnd) -> None:
        """As a job of Spark: the first task that dies ends it, whatever the others do.

        A task that dies before it has called the coordinator is missed by nobody else.
        """
        lost = False
        with ThreadPoolExecutor(len(self._children)) as pool:
            for ended in as_completed([pool.submit(child.result) for child in self._children]):
                if not ended.result() and not lost:
                    lost = True
                    on_end(TaskLostError("A task's process was killed."))
        if not lost:
            on_end(None)

    def unplaced(self) -> int:
        return 0

    def cancel(self) -> None:
        self._watch.join(LEAVE_TIMEOUT_S)
        if self._watch.is_alive():
            for child in self._children:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
            self._watch.join()


def task(server: str, spec: TaskSpec, trace: Trace | None) -> bool:
    """A task's process."""
    l2_server.attach(server, trace)
    run_task(spec)
    return True
