"""Files and folders that survive a crash of the machine.

All that the checkpoint and the files sink do to a local disk, they do through :data:`system`.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

system: Any = os
"""The file system's calls, named and behaving as in :mod:`os`: ``open``, ``fsync``, ``link`` ...
The fault tests put a disk in its place that loses what was not synchronised."""

KEPT_MAX = 10_000
_kept: set[Path] = set()  # folders that this process has seen to, see make_folder


def create(path: Path) -> IO[bytes]:
    """A new file, open for writing.

    :raises FileExistsError: it is there already.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    file: IO[bytes] = system.fdopen(system.open(path, flags, 0o666), "wb")
    return file


def read(path: Path) -> bytes:
    """The whole content of a file.

    :raises OSError: it cannot be read.
    """
    descriptor = system.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := system.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        system.close(descriptor)


def sync(file: IO[bytes]) -> None:
    """What was written to a file stays so. Its name is the folder's: :func:`sync_folder`.

    :raises OSError: the file cannot be synchronised.
    """
    file.flush()
    system.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, so that they stay. One that is there may have been made
    by a process that died before it could see to that, so this looks at each folder once; and
    again when it has seen :data:`KEPT_MAX` others, for partition values may be new without end.

    :raises OSError: it cannot be created.
    """
    if folder in _kept and _is_folder(folder):
        return
    if _is_folder(folder):
        with suppress(PermissionError):  # made by somebody with other rights than ours
            sync_folder(folder.parent)
    else:
        make_folder(folder.parent)
        try:
            system.mkdir(folder)
        except FileExistsError:
            if not _is_folder(folder):
                raise
        sync_folder(folder.parent)
    if len(_kept) >= KEPT_MAX:
        _kept.clear()
    _kept.add(folder)


def sync_folder(folder: Path) -> None:
    """What was created, renamed or removed in a folder stays so.

    :raises OSError: the folder cannot be synchronised.
    """
    descriptor = system.open(folder, os.O_RDONLY)
    try:
        system.fsync(descriptor)
    finally:
        system.close(descriptor)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(system.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
