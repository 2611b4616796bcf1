"""Standard output, of which the reader may leave: ``continuous epochs CHECKPOINT | head``."""

from __future__ import annotations

import os
import sys
from typing import Final

READER_GONE: Final = 141
"""The exit code of a command whose reader has left, as shells tell of it."""


class ReaderGoneError(Exception):
    """Nobody reads standard output any more; nothing more can be said there."""


def say(text: str) -> None:
    """Print a text, and a line's end, at once.

    :raises ReaderGoneError: whoever has read it has left.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python writes what it still has at its end, and would complain.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise ReaderGoneError from None
