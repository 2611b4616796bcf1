"""How many files, sockets and mapped pieces of files a process may have open."""

from __future__ import annotations

import contextlib
import errno
import resource
from typing import Final

NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)
"""The errors of one that may open no more, or whose system may not."""
_MANY: Final = 1 << 20
"""Where the system names no end. Linux lets no process have more, unless told so."""


def open_files_max() -> int:
    """So many may be open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MANY if soft == resource.RLIM_INFINITY else soft


def allow_many_open_files() -> None:
    """Raise this process's limit to what the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # then it stays at what it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
