"""Files of a task's own that nobody else needs: they have no name.

So they are gone when they are closed, or when the process is, however it ends: nothing is left on
the disk by a kill, and nobody has to tidy up. (``du`` does not see them; ``df`` does.)
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

from engine.base.open_files import NONE_LEFT, open_files_max
from engine.errors import ConfigError, StateTooLargeError

Opened = TypeVar("Opened")
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Scratch:
    """See the module.

    :param folder: where they are; None: the first of Spark's local folders, or the system's folder
        of temporary files.
    :param piece_bytes: so much of a state is in memory on its way; None: as
        :data:`engine.state.pieces.PIECE_BYTES` says.
    """

    folder: str | None = None
    piece_bytes: int | None = None

    @property
    def place(self) -> str:
        """The folder."""
        return self.folder or os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or _temporary()

    def file(self) -> IO[bytes]:
        """An empty file, for writing and reading.

        :raises ConfigError: the folder cannot have one.
        :raises StateTooLargeError: this process may open no more files.
        """
        with self._made():
            return tempfile.TemporaryFile(dir=self.place, buffering=0)

    def opened(self, opener: Callable[[str], Opened]) -> Opened:
        """An empty file that something else opens, by a path that is gone afterwards.

        :raises ConfigError, StateTooLargeError: as :meth:`file`.
        """
        with self._made():
            descriptor, path = tempfile.mkstemp(dir=self.place)
        os.close(descriptor)
        try:
            return opener(path)
        finally:
            Path(path).unlink()

    def write(self, file: IO[bytes], data: bytes | memoryview) -> None:
        """Behind what was written before.

        :raises StateTooLargeError: the disk is full.
        """
        rest = memoryview(data).cast("B")
        with self.told():
            while len(rest):
                rest = rest[file.write(rest) :]

    def mapped(self, nbytes: int) -> mmap.mmap:
        """Memory that the system keeps in a file; zeros at first.

        :raises StateTooLargeError: the disk is full. Known now, and not when a page is written,
            for then the system would kill the process.
        """
        with self.file() as file, self.told():
            os.posix_fallocate(file.fileno(), 0, nbytes)
            return mmap.mmap(file.fileno(), nbytes)

    @contextmanager
    def told(self) -> Iterator[None]:
        """:raises StateTooLargeError: the disk is full, or too many files are open."""
        try:
            yield
        except OSError as exc:
            if exc.errno in NONE_LEFT:
                raise _too_many(exc) from exc
            if exc.errno not in _FULL:
                raise
            raise self.too_small(str(exc.strerror)) from exc

    def too_small(self, reason: str) -> StateTooLargeError:
        """The error of a disk that is full."""
        return StateTooLargeError(
            f"The state of a task does not fit the disk of {self.place}, where it waits as far as "
            f"it is not in memory: {reason}.",
            hint="Start the query again with more space there, with another folder (option "
            "stateScratchFolder), or with more reducers, which share the state: it goes on where "
            "it was.",
        )

    @contextmanager
    def _made(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            if exc.errno in NONE_LEFT:
                raise _too_many(exc) from exc
            raise ConfigError(
                f"No file can be made in {self.place}, where state goes that is not in memory: "
                f"{exc.strerror or exc}.",
                hint="Option stateScratchFolder names another folder, on each executor.",
            ) from exc


HERE: Final = Scratch()
"""Where nobody says anything else."""


def _too_many(error: OSError) -> StateTooLargeError:
    return StateTooLargeError(
        f"What is not in memory of a task's state needs more files than its process may have open, "
        f"which are {open_files_max()}: {error.strerror}.",
        hint="Raise the limit where Spark's executors start (ulimit -n), the option "
        "stateSpillAfterBytes, or the number of reducers, which share the state: it goes on where "
        "it was.",
    )


def _temporary() -> str:
    return tempfile.gettempdir()
