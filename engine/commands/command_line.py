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
from engine.errors import ConfigError, ContinuousError, in_the_catalogue
from engine.logs.json_lines import FORMATS, logs_json
from engine.redaction.logs import RedactingFormatter, describe_trace
from engine.spark.failure import describe_error

logger = logging.getLogger(__name__)
INTERRUPTED = 130
_WORDS = """\
SPEC is the description of a query, a YAML or JSON file: `continuous init` writes one.
CHECKPOINT is where a query keeps its progress, its checkpoint_location: a folder or a URL.
`continuous COMMAND --help` tells more of each command.

Exit codes: 0 as asked, 1 it failed, 2 the arguments, the specification or the machine are
wrong, 130 after Ctrl-C, 141 whoever reads the output has left.
"""
_THE_SPEC = "the specification, a YAML or JSON file; - is standard input"
_LAST_EPOCH = "(default: the last committed one)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with standard_error():
        try:
            return _main(arguments)
        except KeyboardInterrupt:
            return INTERRUPTED


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
        complain(f"(what to do: continuous errors {in_the_catalogue(error)})")


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
        prog="continuous",
        description="Run and look after continuous queries.",
        epilog=_WORDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, execute: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="print JSON: one object")
        command.add_argument("--debug", action="store_true", help="log more; show tracebacks")
        command.set_defaults(execute=execute)
        return command

    def on_checkpoint(name: str, execute: str, text: str) -> argparse.ArgumentParser:
        command = add(name, execute, text)
        command.add_argument(
            "checkpoint", metavar="CHECKPOINT", help="of the query: a folder or a URL"
        )
        return command

    run = add("run", "run_query:run", "run a query until it ends; SIGTERM or Ctrl-C drains it")
    run.add_argument("spec", metavar="SPEC", help=_THE_SPEC)
    forget = "delete SPEC once it is read: it may hold secrets"
    run.add_argument("--forget", action="store_true", help=forget)
    standby = "wait, ready to run, while another process runs the query; take over if that is lost"
    run.add_argument("--standby", action="store_true", help=standby)
    only = "the same, but end if nobody runs the query any more when this process comes"
    run.add_argument("--only-standby", action="store_true", help=only)
    logs = "how driver and tasks log (default: as SPEC says, else text)"
    run.add_argument("--log-format", choices=FORMATS, help=logs)

    explain = add(
        "explain",
        "explain:explain",
        "the plan of a query without running it, or all reasons why it would be refused",
    )
    explain.add_argument("spec", metavar="SPEC", help=_THE_SPEC)
    logs = "how it logs; by default as SPEC says, else text"
    explain.add_argument("--log-format", choices=FORMATS, help=logs)

    top = add(
        "top",
        "top:top",
        "all queries, live in the terminal: charts, drain, stop; with --json one look",
    )
    top.add_argument(
        "places",
        metavar="ROOT or CHECKPOINT",
        nargs="*",
        help="checkpoints, folders that have some below, or patterns (default: the present folder)",
    )
    on_checkpoint("status", "status:status", "who runs a query, and how far it has come")
    epochs = on_checkpoint(
        "epochs", "status:epochs", "the committed epochs: when, rows, latencies, offsets"
    )
    newest = "only the newest N (default: 20)"
    epochs.add_argument("--last", type=_positive, default=20, metavar="N", help=newest)
    goes_on = (
        "go on with each as it commits, until the query ends or Ctrl-C; with --json an object per "
        "line"
    )
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
    replay.add_argument("--epoch", type=_epoch, required=True, metavar="N", help="the one to run")
    code = "the specification, as it ran the epoch: the checkpoint holds no code"
    replay.add_argument("--spec", required=True, metavar="SPEC", help=code)
    changed = "a changed query: the same records, and the difference of what goes out"
    replay.add_argument("--with", dest="changed", metavar="CHANGED_SPEC", help=changed)
    shown = "show so many of each step (default: 20)"
    replay.add_argument("--rows", type=_positive, default=20, metavar="N", help=shown)

    for name, text in (
        ("drain", "finish the open epoch of a running query, then end it"),
        ("stop", "end a running query now; its open epoch is read again next time"),
    ):
        end = on_checkpoint(name, f"control:{name}", text)
        waits = "how long to wait for the end (default: 60); the request stands all the same"
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
        help="how many; 0: again as the query's option reducers says",
    )

    inspect = on_checkpoint(
        "inspect",
        "inspect_checkpoint:inspect",
        "all that a checkpoint tells: status, logs and their gaps, epochs, pins, problems",
    )
    shown = "the newest N epochs (default: 20)"
    inspect.add_argument("--last", type=_positive, default=20, metavar="N", help=shown)

    letters = on_checkpoint(
        "dead-letters",
        "show_letters:dead_letters",
        "the newest records that were put aside, and why; without secrets",
    )
    letters.add_argument("--last", type=_positive, default=20, metavar="N", help=newest)

    state = on_checkpoint("state", "show_state:state", "what a query remembers, as tables")
    state.add_argument(
        "--stage", type=_epoch, metavar="N", help="of this stage only, by its number"
    )
    state.add_argument(
        "--key",
        action="append",
        metavar="NAME=VALUE",
        help="only rows in which the column has this value; window.start looks into a struct; "
        "several: all of them hold",
    )
    as_of = f"as of its end {_LAST_EPOCH}"
    state.add_argument("--epoch", type=_epoch, metavar="N", help=as_of)
    shown = "show so many of each table (default: 20)"
    state.add_argument("--rows", type=_positive, default=20, metavar="N", help=shown)

    prune = on_checkpoint(
        "prune", "prune:prune", "remove what no restart can need; * stands for many checkpoints"
    )
    kept = "keep the last N epochs, 2 or more (default: 100, if no --keep-... is given)"
    prune.add_argument("--keep-epochs", type=int, metavar="N", help=kept)
    young = 'keep all epochs that are younger, "7 days" for example'
    prune.add_argument("--keep-for", metavar="DURATION", help=young)
    fits = "keep of these only the newest, as many as take N bytes; the last two stay in any case"
    prune.add_argument("--keep-bytes", type=int, metavar="N", help=fits)
    prune.add_argument("--dry-run", action="store_true", help="only tell what would go")
    prune.add_argument(
        "--compact-sink", action="store_true", help="also shorten the log of the files sink"
    )
    prune.add_argument(
        "--remove-orphans",
        metavar="DURATION",
        nargs="?",
        const="1 day",
        help="also remove the sink's data files of no epoch that are older, "
        '"2 days" for example ("1 day" if this stands alone, behind CHECKPOINT)',
    )
    sink = prune.add_mutually_exclusive_group()
    its_folder = "the sink's folder, where the checkpoint does not tell it: Spark's own"
    sink.add_argument("--sink-path", metavar="PATH", help=its_folder)
    secrets = "the query's specification, if its sink is reached with secrets"
    sink.add_argument("--spec", metavar="SPEC", help=secrets)

    maintain = add(
        "maintain",
        "maintain:maintain",
        "compact, expire and vacuum the table (Delta, Iceberg) that queries write to: all three if "
        "none of them is named",
    )
    maintain.add_argument(
        "checkpoints",
        metavar="CHECKPOINT",
        nargs="+",
        help="of all queries that write to it; the first one tells which table it is",
    )
    secrets = "the first query's specification, if its table is reached with secrets"
    maintain.add_argument("--spec", metavar="SPEC", help=secrets)
    maintain.add_argument("--compact", action="store_true", help="make larger files of small ones")
    maintain.add_argument("--expire", action="store_true", help="forget old states of the table")
    maintain.add_argument("--vacuum", action="store_true", help="remove files that nobody needs")
    stays = (
        'how long old states stay, an hour or more, "14 days" for example (default: as the table '
        "says, else a week of Delta, five days of Iceberg)"
    )
    maintain.add_argument("--retain", metavar="DURATION", help=stays)
    back = 'how far back a query can be rewound, "3 days" for example (default: "1 day")'
    maintain.add_argument("--rewindable", metavar="DURATION", help=back)
    large = "how large files should be, in bytes (default: as the table says, else 128 MiB)"
    maintain.add_argument("--file-bytes", type=_positive, metavar="N", help=large)
    maintain.add_argument("--dry-run", action="store_true", help="only tell what would be done")

    copy = on_checkpoint("copy", "copy_checkpoint:copy", "fork a checkpoint for another query")
    copy.add_argument("target", metavar="TARGET", help="a folder or a URL that is not there yet")
    until = f"up to this epoch {_LAST_EPOCH}"
    copy.add_argument("--to-epoch", type=_epoch, metavar="N", help=until)

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
    letters_of_it = "to rewind by: letters, digits, dots, dashes, underscores"
    pin.add_argument("name", metavar="NAME", help=letters_of_it)
    pin.add_argument("--epoch", type=_epoch, metavar="N", help=f"the one to keep {_LAST_EPOCH}")
    for command in (rewind, pin):
        command.add_argument(
            "--spec",
            metavar="SPEC",
            help="the query's specification, if the checkpoint is Spark's or the sink is reached "
            "with secrets",
        )
    unpin = on_checkpoint("unpin", "rewind_checkpoint:unpin", "forget a pin")
    unpin.add_argument("name", metavar="NAME", help="of the pin")
    on_checkpoint("pins", "rewind_checkpoint:pins", "the pinned epochs, with names and times")

    init = add(
        "init",
        "init:init",
        "write a specification with comments, an Airflow DAG that runs it, and a test of both",
    )
    here = "where, made if it is not there; the query gets its name (default: the present one)"
    init.add_argument("directory", metavar="DIRECTORY", nargs="?", default=".", help=here)

    doctor = add(
        "doctor",
        "doctor:doctor",
        "find out whether queries can run here: Java, PySpark, Python, a Spark that is started",
    )
    tried = "try its storage as well; it need not be there yet"
    doctor.add_argument("checkpoint", metavar="CHECKPOINT", nargs="?", help=tried)

    errors = add("errors", "show_errors:show_errors", "what a class of error means, and what to do")
    without = "such as SinkAheadError; without it, a line of each class"
    errors.add_argument("error", metavar="CLASS", nargs="?", help=without)
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
