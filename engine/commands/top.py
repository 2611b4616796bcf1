"""``top``: all queries, live in the terminal; with ``--json`` one look at them, for programs."""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from engine.base.text_tables import count
from engine.checkpoint.storage.opening import given_location
from engine.commands.result import DONE, FAILED, Result
from engine.commands.terminal.looks import Looks
from engine.errors import CheckpointError, ConfigError

INSTALL: Final = "pip install 'airflow-provider-continuous[top]'"
_JSON_LOOK_S: Final = 60.0
_ERRORS_TOLD: Final = 3


def top(args: Namespace) -> Result:
    """Show the queries of some places until a key ends it.

    :raises ConfigError: a place is empty, this is no terminal, or a package is missing.
    """
    places = [given_location(place) for place in args.places or ["."]]
    if args.json:
        looks = Looks(places)
        data = {"queries": [each.to_dict() for each in looks.whole(_JSON_LOOK_S)]}
        missing = _missing([each.error or "" for each in looks.unlisted])
        if looks.is_finding:
            missing = f"{', '.join(places)} has not been searched to its end in time."
        error = CheckpointError(missing) if missing else None
        return Result(data, "", FAILED if error else DONE, error)
    # It is drawn on standard error.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise ConfigError(
            "top needs a terminal, and standard input, output or error is none.",
            hint="For a program or a file: continuous top --json, continuous status CHECKPOINT, or "
            "continuous epochs CHECKPOINT --follow.",
        )
    if os.environ.get("TERM") == "dumb":
        raise ConfigError(
            "top needs a terminal with a cursor that it can move, and TERM is dumb.",
            hint="Set TERM if the terminal can do more; else continuous top --json.",
        )
    try:
        from engine.commands.terminal.app import TopApp
    except ImportError as exc:
        raise ConfigError(
            f"top needs the package textual: {exc}.",
            hint=f"{INSTALL}. Without it: continuous top --json, or continuous status CHECKPOINT.",
        ) from exc
    logging.disable()  # a line of a log would be written across the screen
    try:
        TopApp(places).run()
    finally:
        logging.disable(logging.NOTSET)
    return Result({}, "", DONE)


def _missing(errors: Sequence[str]) -> str:
    told = " ".join(errors[:_ERRORS_TOLD])
    more = len(errors) - _ERRORS_TOLD
    return f"{told} And {count(more, 'more folder')} cannot be listed." if more > 0 else told
