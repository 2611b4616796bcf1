"""Standard output, of which the reader may leave: ``continuous epochs CHECKPOINT | head``; and
standard error, which nobody may hear: then the exit code tells alone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

READER_GONE: Final = 141
"""The exit code of a command whose reader has left, as shells tell of it."""


class OutputError(Exception):
    """Nothing more can be said on standard output; the text says why."""


class ReaderGoneError(OutputError):
    """Nobody reads it any more."""


def escape_what_cannot_be_said() -> None:
    """Characters that standard output's encoding has not, as in a locale without UTF-8, and halves
    of them, as names of files may have, are said by their escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print a text, and a line's end, at once.

    :raises ReaderGoneError: whoever has read it has left.
    :raises OutputError: it cannot be written, as to a full disk.
    """
    try:
        print(text, flush=True)
    except OSError as exc:
        _let_go(sys.stdout)
        if isinstance(exc, BrokenPipeError):
            raise ReaderGoneError("Nobody reads standard output any more.") from None
        raise OutputError(f"Standard output cannot be written to: {exc}.") from None


def complain(text: str) -> None:
    """Print a text, and a line's end, on standard error, if that can be written."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextmanager
def standard_error() -> Iterator[None]:
    """There is one, closed as it may have been; what it cannot take is no matter for the exit
    code."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        yield
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            _let_go(sys.stderr)


def _let_go(stream: TextIO) -> None:
    """Python writes what it still has at its end, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
