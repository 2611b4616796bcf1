"""Standard output, of which the reader may leave: ``continuous epochs CHECKPOINT | head``."""

from __future__ import annotations

import io
import os
import sys
from typing import Final

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
        # Python writes what it still has at its end, and would complain.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if isinstance(exc, BrokenPipeError):
            raise ReaderGoneError("Nobody reads standard output any more.") from None
        raise OutputError(f"Standard output cannot be written to: {exc}.") from None
