"""``run``: start a query in this process and stay with it until it ends."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standby import NoTurn, Standby, ended_error
from engine.commands.live import ProgressDisplay
from engine.commands.result import DONE, FAILED, Result
from engine.commands.specified_logs import log_as_specified
from engine.errors import ConcurrentRunError, ConfigError
from engine.logs.json_lines import JSON, SETTING, JsonFormatter, logs_json
from engine.query.spec import QuerySpec, build, load_spec
from engine.query.spec.document import STANDARD_INPUT
from engine.spark.failure import describe_error
from engine.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.execution.execution import ContinuousExecution
    from engine.query.handle import ContinuousQuery
    from engine.query.handoff import SparkQuery

    Query = ContinuousQuery | SparkQuery

logger = logging.getLogger(__name__)
_POLL_S = 0.2
_NEEDED = (
    "pandas",  # which every session imports
    "engine.query.registration",
    "engine.query.writer",
    "engine.plan.planner",
    "engine.spark.executor_launcher",
)
"""By what comes behind the start of Java: a second of imports."""
_NOT_STARTED = Result({"state": None, "error": None}, "Ended before the query was started.")


def run(args: Namespace) -> Result:
    """Run a query until it ends, by itself or because somebody asked for it."""
    path = Path(args.spec)
    if args.forget and path == STANDARD_INPUT:
        raise ConfigError(
            "--forget deletes the file of the specification, and - is standard input.",
            hint="Leave --forget out: what is read from standard input is kept nowhere.",
        )
    try:
        spec = load_spec(path)
    finally:
        if args.forget:
            path.unlink(missing_ok=True)
    logs = log_as_specified(spec, args.log_format)
    if logs is not None:
        spec = replace(spec, conf={**spec.conf, SETTING: JSON})
    with prints_go_to_stderr() if args.json else nullcontext():
        return _run(spec, logs, args)


def _run(spec: QuerySpec, logs: JsonFormatter | None, args: Namespace) -> Result:
    with EndSignals() as signals:
        try:
            name = spec.name or "continuous query"
            spark = build_session(spec.conf, name, spec.python_path, _NEEDED)
        except Exception:
            # A signal to the whole process group also ends the JVM that is just starting.
            if signals.count:
                return _NOT_STARTED
            raise
        try:
            if signals.count:
                return _NOT_STARTED
            try:
                query = _start(spec, spark, signals, logs, args)
            except NoTurn as ended:
                return _not_needed(spec, ended)
            logger.info("query %s, run %s, is running", query.id, query.runId)
            return _result(query, spec, _stay_with(query, signals))
        finally:
            _stop(spark)


def _start(
    spec: QuerySpec,
    spark: SparkSession,
    signals: EndSignals,
    logs: JsonFormatter | None,
    args: Namespace,
) -> Query:
    """:raises NoTurn: it stood by, and is not needed."""
    while True:
        writer = build(spec, spark)
        if logs is not None:
            writer.request.on_made = partial(_name_it, logs, spec.name)
        if args.standby or args.only_standby:
            begins = not args.only_standby
            writer.request.standby = Standby(lambda: signals.count > 0, begins=begins)
        try:
            return writer.start()
        except ConcurrentRunError:
            if writer.request.standby is None:
                raise
            logger.info("another run holds the checkpoint again")


def _name_it(logs: JsonFormatter, name: str | None, execution: ContinuousExecution) -> None:
    """Let each line say which run it is of."""
    logs.fields = lambda: {
        "query": name or execution.definition.name,
        "query_id": execution.query_id or None,
        "run": execution.run_id,
        "generation": execution.generation,
        "epoch": execution.committed_epoch + 1,
    }


def _not_needed(spec: QuerySpec, ended: NoTurn) -> Result:
    holder = ended.holder
    if holder is None:
        return _NOT_STARTED
    error = ended_error(holder)
    data = {
        "run_id": holder.run_id,
        "name": spec.name,
        "state": holder.state.value,
        "epoch": ended.epoch,
        "error": None if error is None else str(error),
    }
    told = f"Run {holder.run_id} on {holder.host} is {holder.state}: its standby is not needed."
    return Result(data, told, DONE if error is None else FAILED, error)


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception as error:  # its JVM has died: what became of the query is known all the same
        logger.warning("Spark did not stop cleanly: %s", describe_error(error))


def _stay_with(query: Query, signals: EndSignals) -> Exception | None:
    """Wait for the query's end, show its progress, and end it when a signal says so.

    :return: why it failed.
    """
    display = ProgressDisplay(sys.stderr, live=not logs_json())
    answered = 0
    try:
        while True:
            try:
                if query.awaitTermination(_POLL_S):
                    return None
                progress = query.lastProgress
                if signals.count > answered:
                    answered = signals.count
                    _end(query, answered)
            except Exception as error:
                return error
            display.show(progress)
    finally:
        display.close()


def _end(query: Query, signal_count: int) -> None:
    if signal_count > 1:
        logger.info("stopping; a third signal ends the process")
        query.stop()
        return
    logger.info("draining; a second signal stops the query without waiting for its drain")
    # It waits for the end, and a second signal must get through.
    threading.Thread(target=_drain, args=(query,), name="drain", daemon=True).start()


def _drain(query: Query) -> None:
    with suppress(Exception):  # a failure of the query is reported by who waits for its end
        query.drain()


def _result(query: Query, spec: QuerySpec, error: Exception | None) -> Result:
    state = QueryState.STOPPED if error is None else QueryState.FAILED
    epoch = query.status["epoch"]
    data = {
        "id": str(query.id),
        "run_id": str(query.runId),
        "name": spec.name,
        "state": state.value,
        "epoch": epoch,
        "error": None if error is None else describe_error(error),
    }
    return Result(
        data,
        f"The query is {state}, last committed epoch {epoch}.",
        DONE if error is None else FAILED,
        error,
    )


class EndSignals:
    """Counts SIGTERM and SIGINT (Ctrl-C) while it is entered. The third one kills."""

    _NUMBERS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.count = 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt

    def __enter__(self) -> EndSignals:
        self._before = {number: signal.getsignal(number) for number in self._NUMBERS}
        for number in self._NUMBERS:
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def prints_go_to_stderr() -> Iterator[None]:
    """Keep standard output for the result: what sinks, user code and Spark's JVM print, which
    inherits it, goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
