"""Servers that several roads of one process use, one road after the other: a broker needs longer to
start than the few faults of a short form take."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

_Server = TypeVar("_Server")
_until_stop: ExitStack | None = None
_servers: dict[str, Any] = {}


def keep() -> None:
    """From now on servers run until :func:`stop`."""
    global _until_stop
    _until_stop = ExitStack()


def stop() -> None:
    """Stop all of them."""
    global _until_stop
    if _until_stop is not None:
        _until_stop.close()
    _until_stop = None
    _servers.clear()


@contextmanager
def serving(
    kind: str, folder: Path, start: Callable[[Path], AbstractContextManager[_Server]]
) -> Iterator[_Server]:
    """A server of this kind: the one that is kept, or one for the time of the block.

    :param folder: for a server that is not kept.
    :param start: gets the folder that the server is to use.
    """
    if _until_stop is None:
        with start(folder) as server:
            yield server
        return
    if kind not in _servers:
        own = Path(tempfile.mkdtemp(prefix="continuous-faults-"))
        _until_stop.callback(shutil.rmtree, own)
        _servers[kind] = _until_stop.enter_context(start(own))
    yield _servers[kind]
