"""A new file that stays half-written helps nobody: the next attempt makes another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Remove a new file if it cannot be written to its end."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise
