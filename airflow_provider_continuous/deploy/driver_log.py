"""What a query's driver has written to its log: all since somebody last looked, or the end."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.redaction.logs import redact
from engine.redaction.texts import PRIVATE_KEY

LINES_MAX = 200
BYTES_MAX = 64 * 1024
KEY_BYTES_MAX = 16 * 1024
TAIL_LINES = 20
TAIL_BYTES_MAX = 16 * 1024
_KEY = re.compile(PRIVATE_KEY.encode())
_INFO = re.compile(r"^[\d/]+ [\d:]+ INFO .*\n?", re.MULTILINE)
"""As Spark's own settings of its log have it, which hold on a cluster that has none."""


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
        told by a line of its own. From a private key on that has no end yet, nothing is shown: what
        comes next would not look like a part of one. No key is longer than :data:`KEY_BYTES_MAX`.

        :param ended: nobody writes any more: a last line without its end is one too.
        """
        start, data = _end_of(self._path, self.position, BYTES_MAX)
        if not ended:
            data = _before_open_key(data[: data.rfind(b"\n") + 1])
        lines = data.splitlines(keepends=True)
        if start > self.position:
            del lines[:1]  # only the end of one
        del lines[:-LINES_MAX]
        left_out = start + len(data) - self.position - sum(map(len, lines))
        self.position = start + len(data)
        text = "\n".join(line.decode(errors="replace").rstrip("\r\n") for line in lines)
        shown = redact(text).split("\n") if lines else []  # a key may go over several lines
        return [f"... {left_out:,} bytes left out, see {self._path}", *shown] if left_out else shown


def tail(path: Path, lines_max: int = TAIL_LINES) -> str:
    """Return the end of a log, without its secrets; empty when it is not on this machine."""
    _, data = _end_of(path, 0, TAIL_BYTES_MAX)
    return end_of_text(data.decode(errors="replace"), lines_max)


def end_of_driver(text: str) -> str:
    """Return what a driver on a cluster has written last, without its secrets and without what
    Spark tells of its own end."""
    return end_of_text(_INFO.sub("", text))


def end_of_text(text: str, lines_max: int = TAIL_LINES) -> str:
    """Return the last lines of a text, without its secrets."""
    return redact("\n".join(text.splitlines()[-lines_max:]))  # a key may go over several lines


def _end_of(path: Path, position: int, bytes_max: int) -> tuple[int, bytes]:
    """Where the end of a file begins, from a position on, and what is there."""
    try:
        with path.open("rb") as log:
            start = log.seek(max(position, log.seek(0, os.SEEK_END) - bytes_max))
            return start, log.read(bytes_max)
    except OSError:
        return position, b""


def _before_open_key(data: bytes) -> bytes:
    """The lines before that in which a private key begins, if it has no end."""
    key = _KEY.search(data, max(data.rfind(b"-----END "), 0))
    if key is None or len(data) - key.start() > KEY_BYTES_MAX:
        return data
    return data[: data.rfind(b"\n", 0, key.start()) + 1]
