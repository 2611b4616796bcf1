"""What hangs as a whole when storage hangs: a mount, or a bucket."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from urllib.parse import urlsplit

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(rb"\\([0-7]{3})")
"""Of a byte; a space is ``\\040``."""
_KNOWN_FOR_S = 60.0
_known: tuple[float, list[str]] = (-_KNOWN_FOR_S, [])


def place_of(url: str) -> str:
    """Return the place of a path or URL: scheme and host, or the mount that a path is on.

    Nothing of the place itself is looked at, and no link is followed: that could hang.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""  # of what is no URL: whoever opens it says so, and nothing hangs
    if parts.scheme not in ("", "file", "local"):
        return f"{parts.scheme}://{parts.netloc}"
    path = os.path.normpath(parts.path) + "/"
    return max((each for each in _mounts() if path.startswith(each)), key=len, default="/")


def _mounts() -> list[str]:
    """Where file systems are mounted, each with a slash at its end; nothing if nobody tells."""
    global _known
    read_at, mounts = _known
    if time.monotonic() - read_at >= _KNOWN_FOR_S:
        try:
            lines = _MOUNTS.read_bytes().split(b"\n")
        except OSError:
            lines = []
        mounts = [_mount_point(line).rstrip("/") + "/" for line in lines if line]
        _known = time.monotonic(), mounts
    return mounts


def _mount_point(line: bytes) -> str:
    """The fifth field."""
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4]))
