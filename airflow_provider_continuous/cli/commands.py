"""What ``airflow continuous`` does: the engine's commands, with Airflow's connections."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.plugins.formats import duration
from airflow_provider_continuous.plugins.queries import look_at_all
from engine.commands import control
from engine.commands import status as status_command
from engine.commands.output import (
    READER_GONE,
    OutputError,
    ReaderGoneError,
    escape_what_cannot_be_said,
    say,
)
from engine.commands.result import (
    DONE,
    FAILED,
    WRONG_USE,
    Result,
    format_table,
)
from engine.errors import ConfigError, ContinuousError
from engine.spark.failure import describe_error


def list_queries(args: Namespace) -> None:
    """Show the queries below the configured roots."""
    _finish(args, _listing)


def status(args: Namespace) -> None:
    """Show who runs a query, and how far it has come."""
    _on_checkpoint(args, status_command.status)


def epochs(args: Namespace) -> None:
    """Show the committed epochs of a query."""
    _on_checkpoint(args, status_command.epochs)


def drain(args: Namespace) -> None:
    """Ask a query to finish its open epoch, and wait for the end."""
    _on_checkpoint(args, control.drain)


def stop(args: Namespace) -> None:
    """Ask a query to end now, and wait for the end."""
    _on_checkpoint(args, control.stop)


def _listing() -> Result:
    listing = look_at_all()
    rows = [
        [
            query["name"],
            query["state"],
            query["epoch"],
            query["rows_per_second"],
            query["latency_p99_ms"],
            duration(query["lag_s"]),
            duration(query["watermark_lag_s"]),
            query["restarts"],
            query["checkpoint_location"],
        ]
        for query in listing["queries"]
    ]
    header = [
        "query",
        "state",
        "epoch",
        "rows/s",
        "p99 ms",
        "lag",
        "watermark lag",
        "restarts",
        "checkpoint",
    ]
    roots = ", ".join(listing["roots"]) or "any folder: none is configured"
    text = format_table(header, rows) if rows else f"There is no query below {roots}."
    for problem in listing["problems"]:
        text += f"\n{problem['location']}: {problem['error']}"
    return Result(listing, text, FAILED if listing["problems"] else DONE)


def _on_checkpoint(args: Namespace, command: Callable[[Namespace], Result]) -> None:
    def run() -> Result:
        storage = CheckpointHook(args.checkpoint).checkpoint.storage
        return command(Namespace(**{**vars(args), "checkpoint": storage}))

    _finish(args, run)


def _finish(args: Namespace, run: Callable[[], Result]) -> None:
    """Print what a command gives back, and end with its exit code."""
    escape_what_cannot_be_said()
    try:
        result = run()
    except ContinuousError as error:
        code = WRONG_USE if isinstance(error, ConfigError) else FAILED
        result = Result({"error": str(error)}, "", code, error)
    if result.error is not None:
        print(f"airflow continuous: {describe_error(result.error)}", file=sys.stderr)
    try:
        if args.json:
            say(json.dumps(result.data))
        elif result.text:
            say(result.text)
    except ReaderGoneError:
        sys.exit(READER_GONE)
    except OutputError as error:
        sys.exit(f"airflow continuous: {error}")
    sys.exit(result.exit_code)
