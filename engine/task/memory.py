"""The memory of a task that keeps state: ends the query with a reason before the system kills it.

What counts is what the system counts: the bytes of the task's process that are not those of files.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engine.errors import ConfigError, StateTooLargeError

_STATM: Final = Path("/proc/self/statm")
_ROWS: Final = 1 << 16
"""Whenever so many rows have come, it is looked at."""


class MemoryLimit:
    """See the module.

    :param bytes_max: 0: there is no limit.
    :param named: the task, as errors name it.
    :param stages: the names of what keeps state in it.
    :raises ConfigError: there is a limit, and this system does not tell how large a process is.
    """

    def __init__(self, bytes_max: int, named: str, stages: Sequence[str]) -> None:
        self._bytes_max, self._named, self._stages = bytes_max, named, stages
        self._rows = 0
        if bytes_max and not _STATM.exists():
            raise ConfigError(
                f"Option stateMemoryMaxBytes: {_STATM} is not there, which tells the memory of a "
                "process.",
                hint="Leave the option out: only Linux has it.",
            )

    def arrived(self, rows: int) -> None:
        """So many more rows will be kept.

        :raises StateTooLargeError: see :meth:`check`.
        """
        self._rows += rows
        if self._rows >= _ROWS:
            self._rows = 0
            self.check()

    def check(self) -> None:
        """:raises StateTooLargeError: the process has more than it may."""
        if not self._bytes_max:
            return
        _, resident, of_files, *_ = map(int, _STATM.read_text().split())
        nbytes = (resident - of_files) * mmap.PAGESIZE
        if nbytes > self._bytes_max:
            raise StateTooLargeError(
                f"{self._named.capitalize()}, which keeps the state of "
                f"{', '.join(self._stages)}, has {nbytes:,} bytes of memory, and option "
                f"stateMemoryMaxBytes allows {self._bytes_max:,}.",
                hint="Start the query with more reducers, or with fewer partitionsPerTask where "
                "those that read keep the state, so that more share it; or with more memory. If "
                "the state grows without end: a watermark on a column of the key lets it forget.",
            )
