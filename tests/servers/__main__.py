"""``python -m tests.servers [NAME ...]``: starts the servers of the tests on loopback, for a person
to play with; says where they are, and ends them all at Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.servers.offered import SERVERS, Shown
from tests.servers.process import NoServerError

_ENDS = (signal.SIGINT, signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """:return: 0, or 1 if none could be started."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SERVERS)}; all")
    wanted = [name.lower() for name in parser.parse_args(arguments).names]
    unknown = set(wanted) - {name.lower() for name in SERVERS}
    if unknown:
        parser.error(f"no server {', '.join(sorted(unknown))}; there are {', '.join(SERVERS)}")
    handlers = {number: signal.getsignal(number) for number in _ENDS}
    try:
        return _serve([name for name in SERVERS if not wanted or name.lower() in wanted])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _serve(names: Sequence[str]) -> int:
    for number in _ENDS:
        signal.signal(number, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            if not _start(names, stack):
                return 1
            say("Ctrl-C ends them all, and removes what they hold.")
            threading.Event().wait()
        except KeyboardInterrupt:
            say("Ending.")
        finally:
            for number in _ENDS:
                signal.signal(number, signal.SIG_IGN)
    return 0


def _start(names: Sequence[str], stack: ExitStack) -> int:
    """:return: how many run."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servers-")))
    running = 0
    for name in names:
        try:
            say(describe(name, stack.enter_context(SERVERS[name](root / name))))
            running += 1
        except NoServerError as error:
            say(f"{name}\n    not available: {error}\n")
    return running


def describe(name: str, shown: Shown) -> str:
    """A server, for people."""
    lines = [name]
    lines += [f"    {what:<14} {where}" for what, where in shown.places.items()]
    if shown.login:
        lines.append(f"    {'login':<14} {shown.login}")
    for what, command in shown.tries.items():
        lines += [f"    {what}:", f"        {command}"]
    return "\n".join(lines) + "\n"


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
