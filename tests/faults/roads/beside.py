"""What goes on while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Work on a thread; at the end of the block it is told to stop, and waited for. What it raises
    is raised then."""
    with ThreadPoolExecutor(1, thread_name_prefix="feed") as threads:
        working = threads.submit(work)
        try:
            yield
        finally:
            stop.set()
        working.result()
