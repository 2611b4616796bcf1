"""What a folder has lost, and what is only away.

A file that is not found is lost if its folder is there without it. Behind a mount that is away the
folder is gone too, or is the empty one that it was mounted on.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import SourceUnavailableError
from engine.sources.tail.tail_offset import shown_name


def is_lost(root: str, path: str) -> bool:
    """Whether a file that was not found is lost; else it is there again.

    :param root: the folder that the source reads.
    :raises SourceUnavailableError: that is not there, or is empty.
    """
    check_there(root, path)
    try:
        Path(path).stat()
        is_gone = False
    except (FileNotFoundError, NotADirectoryError):
        is_gone = True
    except OSError as exc:
        raise _away(root, path, str(exc.strerror or exc)) from exc
    check_there(root, path)  # it may have gone away in between
    return is_gone


def check_there(root: str, path: str) -> None:
    """:raises SourceUnavailableError: the folder is not there, is empty, or cannot be listed."""
    try:
        with os.scandir(root) as entries:
            is_empty = next(entries, None) is None
    except OSError as exc:
        raise _away(root, path, str(exc.strerror or exc)) from exc
    if is_empty:
        raise _away(root, path, "it is empty")


def _away(root: str, path: str, why: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"Source files: {shown_name(path)} is not found, and the folder {shown_name(root)} is not "
        f"there where this task runs: {why}.",
        hint="See that its storage is mounted, wherever tasks run. If all of its files were "
        "removed on purpose, put one into it that is not read, such as .keep.",
    )
