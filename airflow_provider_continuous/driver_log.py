"""What a query's driver has written to its log since somebody last looked."""

from __future__ import annotations

import os
from pathlib import Path

from engine.redaction.logs import redact

LINES_MAX = 200
BYTES_MAX = 64 * 1024


class DriverLog:
    """Follows a log file, a limited piece at a time; a file that is not here has no lines.

    :param path: the log, which may not exist yet.
    :param position: the byte to begin at; see :attr:`position`.
    :ivar position: where the next look begins. Keep it to go on in another process.
    """

    def __init__(self, path: Path, position: int = 0) -> None:
        self._path = path
        self.position = position

    def new_lines(self, *, ended: bool = False) -> list[str]:
        """Return the whole lines written since the last look, without their secrets.

        At most the last :data:`LINES_MAX` lines and :data:`BYTES_MAX` bytes; what is left out is
        told by a line of its own.

        :param ended: nobody writes any more: a last line without its end is one too.
        """
        try:
            with self._path.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                start = log.seek(max(self.position, size - BYTES_MAX))
                data = log.read(BYTES_MAX)
        except OSError:
            return []
        if not ended:
            data = data[: data.rfind(b"\n") + 1]
        lines = data.splitlines(keepends=True)
        if start > self.position:
            del lines[:1]  # only the end of one
        del lines[:-LINES_MAX]
        left_out = start + len(data) - self.position - sum(map(len, lines))
        self.position = start + len(data)
        text = "\n".join(line.decode(errors="replace").rstrip("\r\n") for line in lines)
        shown = redact(text).split("\n") if lines else []  # a key may go over several lines
        return [f"... {left_out:,} bytes left out, see {self._path}", *shown] if left_out else shown
