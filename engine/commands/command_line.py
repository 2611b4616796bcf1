"""The command line, ``python -m engine`` or ``continuous``.

Results go to standard output, with ``--json`` as one object; logs and errors go to standard error.
Exit codes: 0 as asked, 1 it failed, 2 the arguments, the specification or the machine are wrong,
130 after Ctrl-C, 141 if whoever reads standard output has left; these two as shells have them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from engine import __version__
from engine.base.extras import needs_engine
from engine.commands.live import ERASE_LINE
from engine.commands.output import (
    READER_GONE,
    OutputError,
    ReaderGoneError,
    complain,
    escape_what_cannot_be_said,
    say,
    standard_error,
)
from engine.commands.result import FAILED, WRONG_USE, Result
from engine.errors import ConfigError, ContinuousError
from engine.logs.json_lines import FORMATS, logs_json
from engine.redaction.logs import RedactingFormatter, describe_trace
from engine.spark.failure import describe_error

logger = logging.getLogger(__name__)
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with standard_error():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks how its line goes on
        from engine.commands.completion import complete

        complete(parser)
    args = parser.parse_args(arguments)
    escape_what_cannot_be_said()
    _configure_logging(args.debug)
    try:
        return _told(args)
    except ReaderGoneError:
        return READER_GONE
    except OutputError as error:
        complain(f"continuous {args.command}: {error}")
        return FAILED


def _told(args: argparse.Namespace) -> int:
    try:
        result = _execute(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError:
        raise
    except Exception as error:
        exit_code = WRONG_USE if isinstance(error, ConfigError) else FAILED
        result = Result({"error": describe_error(error)}, "", exit_code, error)
    if result.error is not None:
        if args.debug:
            complain(describe_trace(result.error))
        told = f"continuous {args.command}: {describe_error(result.error)}"
        if logs_json():
            logger.error(told, extra={"failure": result.error})
        else:
            complain(told)
            _name_in_the_catalogue(result.error)
    if args.json:
        say(json.dumps(result.data))
    elif result.text:
        say(result.text)
    return result.exit_code


def _name_in_the_catalogue(error: BaseException) -> None:
    """Of wrong use everything is said already; errors of others tell their class by themselves."""
    if isinstance(error, ContinuousError) and not isinstance(error, ConfigError):
        name = type(error).__name__
        complain(f"({name}: what to do is in the error catalogue, docs/errors.md)")


def _execute(args: argparse.Namespace) -> Result:
    module, _, function = args.execute.partition(":")
    with needs_engine(f"The command {args.command}"):
        command: Callable[[argparse.Namespace], Result] = getattr(
            import_module(f"engine.commands.{module}"), function
        )
        return command(args)


def _configure_logging(debug: bool) -> None:
    erase = ERASE_LINE if sys.stderr.isatty() else ""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(f"{erase}%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="continuous", description="Run and look after continuous queries."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, execute: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument("--debug", action="store_true", help="log more; show tracebacks")
        command.set_defaults(execute=execute)
        return command

    def on_checkpoint(name: str, execute: str, text: str) -> argparse.ArgumentParser:
        command = add(name, execute, text)
        command.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder or a URL")
        return command

    run = add("run", "run_query:run", "run a query until it ends; SIGTERM or Ctrl-C drains it")
    run.add_argument("spec", metavar="SPEC", help="its YAML or JSON file; - is standard input")
    forget = "delete SPEC once it is read: it may hold secrets"
    run.add_argument("--forget", action="store_true", help=forget)
    standby = "wait, ready to run, while another process runs the query; take over if that is lost"
    run.add_argument("--standby", action="store_true", help=standby)
    only = "the same, but end if nobody runs the query any more when this process comes"
    run.add_argument("--only-standby", action="store_true", help=only)
    logs = "how driver and tasks log; by default as SPEC says, else text"
    run.add_argument("--log-format", choices=FORMATS, help=logs)

    explain = add(
        "explain",
        "explain:explain",
        "the plan of a query without running it, or all reasons why it would be refused",
    )
    explain.add_argument("spec", metavar="SPEC", help="its YAML or JSON file; - is standard input")
    logs = "how it logs; by default as SPEC says, else text"
    explain.add_argument("--log-format", choices=FORMATS, help=logs)

    top = add("top", "top:top", "all queries, live in the terminal: charts, drain, stop")
    top.add_argument(
        "places",
        metavar="ROOT or CHECKPOINT",
        nargs="*",
        help="folders that have checkpoints below, checkpoints, or patterns (the present folder)",
    )
    on_checkpoint("status", "status:status", "who runs a query, and how far it has come")
    epochs = on_checkpoint("epochs", "status:epochs", "the committed epochs")
    epochs.add_argument("--last", type=_positive, default=20, metavar="N", help="how many (20)")
    goes_on = "go on with each as it commits, until the query ends or Ctrl-C"
    epochs.add_argument(
        "--follow",
        dest="execute",
        action="store_const",
        const="follow_epochs:follow",
        help=goes_on,
    )

    replay = on_checkpoint(
        "replay",
        "replay:replay",
        "run an epoch again, and show what came in, what each step made of it and what went out; "
        "sink and checkpoint are not touched",
    )
    replay.add_argument("--epoch", type=_epoch, required=True, metavar="N", help="which one")
    replay.add_argument("--spec", metavar="SPEC", help="the query, as it ran the epoch")
    changed = "a changed query: the same records, and the difference of what goes out"
    replay.add_argument("--with", dest="changed", metavar="CHANGED_SPEC", help=changed)
    shown = "of each step (20)"
    replay.add_argument("--rows", type=_positive, default=20, metavar="R", help=shown)

    for name, text in (
        ("drain", "finish the open epoch of a running query, then end it"),
        ("stop", "end a running query now; its open epoch is read again next time"),
    ):
        end = on_checkpoint(name, f"control:{name}", text)
        waits = "how long to wait for the end (60)"
        end.add_argument("--timeout", type=_seconds, default=60.0, metavar="SECONDS", help=waits)

    rescale = on_checkpoint(
        "rescale",
        "control:rescale",
        "let each stage that keeps state have another number of tasks, now and after restarts",
    )
    rescale.add_argument(
        "--reducers",
        type=_epoch,
        required=True,
        metavar="N",
        help="0: what the query's option says",
    )

    inspect = on_checkpoint("inspect", "inspect_checkpoint:inspect", "all that a checkpoint tells")
    inspect.add_argument("--last", type=_positive, default=20, metavar="N", help="epochs (20)")

    letters = on_checkpoint(
        "dead-letters",
        "show_letters:dead_letters",
        "the newest records that were put aside, and why; without secrets",
    )
    letters.add_argument("--last", type=_positive, default=20, metavar="N", help="how many (20)")

    state = on_checkpoint("state", "show_state:state", "what a query remembers, as tables")
    state.add_argument("--stage", type=_epoch, metavar="N", help="of this pipeline only")
    state.add_argument(
        "--key",
        action="append",
        metavar="NAME=VALUE",
        help="only rows in which the column has this value; window.start looks into a struct",
    )
    state.add_argument("--epoch", type=_epoch, metavar="N", help="by default the last committed")
    state.add_argument("--rows", type=_positive, default=20, metavar="N", help="of each table (20)")

    prune = on_checkpoint(
        "prune", "prune:prune", "remove what no restart can need; * stands for many checkpoints"
    )
    prune.add_argument("--keep-epochs", type=int, metavar="N", help="the last N epochs")
    prune.add_argument("--keep-for", metavar="DURATION", help='younger ones, e.g. "7 days"')
    prune.add_argument("--keep-bytes", type=int, metavar="N", help="of these, what fits")
    prune.add_argument("--dry-run", action="store_true", help="only tell what would go")
    prune.add_argument(
        "--compact-sink", action="store_true", help="also shorten the log of the files sink"
    )
    prune.add_argument(
        "--remove-orphans",
        metavar="DURATION",
        nargs="?",
        const="1 day",
        help="also remove the sink's data files of no epoch that are older (1 day)",
    )
    sink = prune.add_mutually_exclusive_group()
    sink.add_argument("--sink-path", metavar="PATH", help="the sink's folder, if it is not told")
    sink.add_argument("--spec", metavar="SPEC", help="the query, if its sink needs secrets")

    maintain = add(
        "maintain",
        "maintain:maintain",
        "compact, expire and vacuum the table (Delta, Iceberg) that queries write to",
    )
    maintain.add_argument(
        "checkpoints",
        metavar="CHECKPOINT",
        nargs="+",
        help="of all queries that write to it; the first one tells which table it is",
    )
    maintain.add_argument("--spec", metavar="SPEC", help="that query, if its table needs secrets")
    maintain.add_argument("--compact", action="store_true", help="make larger files of small ones")
    maintain.add_argument("--expire", action="store_true", help="forget old states of the table")
    maintain.add_argument("--vacuum", action="store_true", help="remove files that nobody needs")
    maintain.add_argument(
        "--retain", metavar="DURATION", help='how long old states stay, e.g. "7 days"'
    )
    maintain.add_argument(
        "--rewindable", metavar="DURATION", help="how far back a query can be rewound (1 day)"
    )
    maintain.add_argument("--file-bytes", type=_positive, metavar="N", help="of a large file")
    maintain.add_argument("--dry-run", action="store_true", help="only tell what would be done")

    copy = on_checkpoint("copy", "copy_checkpoint:copy", "fork a checkpoint for another query")
    copy.add_argument("target", metavar="TARGET", help="a folder or a URL that is not there yet")
    copy.add_argument("--to-epoch", type=_epoch, metavar="N", help="by default the last committed")

    rewind = on_checkpoint(
        "rewind", "rewind_checkpoint:rewind", "take a stopped query back to an epoch"
    )
    target = rewind.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-epoch", type=_epoch, metavar="N", help="the last epoch that stays")
    target.add_argument("--to-pin", metavar="NAME", help="the same, by the name of a pin")
    rewind.add_argument(
        "--accept-repeats",
        action="store_true",
        help="go on with a sink that cannot take rows back: it gets them again",
    )
    pin = on_checkpoint(
        "pin", "rewind_checkpoint:pin", "keep an epoch to rewind to, whatever is pruned"
    )
    pin.add_argument("name", metavar="NAME")
    pin.add_argument("--epoch", type=_epoch, metavar="N", help="by default the last committed one")
    for command in (rewind, pin):
        command.add_argument(
            "--spec",
            metavar="SPEC",
            help="the query, if the checkpoint is Spark's or its sink is reached with secrets",
        )
    unpin = on_checkpoint("unpin", "rewind_checkpoint:unpin", "forget a pin")
    unpin.add_argument("name", metavar="NAME")
    on_checkpoint("pins", "rewind_checkpoint:pins", "the pinned epochs")

    init = add(
        "init",
        "init:init",
        "write a specification with comments, an Airflow DAG that runs it, and a test of both",
    )
    here = "where; the present one. Its name is the query's"
    init.add_argument("directory", metavar="DIRECTORY", nargs="?", default=".", help=here)

    doctor = add("doctor", "doctor:doctor", "find out whether queries can run here")
    doctor.add_argument(
        "checkpoint", metavar="CHECKPOINT", nargs="?", help="try this storage as well"
    )
    return parser


def _epoch(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
