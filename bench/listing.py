"""The list of 1,000 queries, on storage of which each call takes 50 ms: as the page asks for it.

The checkpoints have what a running query leaves: metadata and a lease with its summary. Told are
the seconds of the first list, of one a moment later, and how many calls both took.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.size import sized

ENGINES = ("1,000 queries, 50 ms per call",)
QUERIES = sized(1_000, 1_000, 50)
CALL_MS = 50.0
CALLS = {"read": 0, "ls": 0, "other": 0}


def main(engine: str) -> None:
    """Measure in this process and print the figures as JSON."""
    from fsspec.implementations.local import LocalFileSystem

    from airflow_provider_continuous.observing.listing import LISTING
    from airflow_provider_continuous.view.roots import Root
    from engine.checkpoint.storage.local_storage import LocalStorage

    with tempfile.TemporaryDirectory(prefix="bench-listing-") as folder:
        write_queries(Path(folder), QUERIES)
        _slow(LocalStorage, "read", "read", CALL_MS)
        for name in ("list", "info", "files_below"):
            _slow(LocalStorage, name, "other", CALL_MS)
        _slow(LocalFileSystem, "ls", "ls", CALL_MS)
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            found = LISTING.below([Root(folder)])
            seconds.append(round(time.perf_counter() - began, 3))
            assert (len(found.queries), found.errors) == (QUERIES, {}), found.errors
    calls = sum(CALLS.values())
    print(json.dumps({"first_s": seconds[0], "again_s": seconds[1], "calls": calls}))


def write_queries(folder: Path, queries: int) -> None:
    """Write the checkpoints of so many running queries into a folder."""
    from engine.checkpoint.checkpoint import Checkpoint
    from engine.checkpoint.lease import Lease
    from engine.checkpoint.query_state import QueryState
    from engine.checkpoint.summary import Summary

    for number in range(queries):
        checkpoint = Checkpoint(str(folder / f"query-{number:04}"))
        query_id = checkpoint.create_or_read_query_id(f"id-{number}")
        lease = Lease.acquire(checkpoint, run_id=f"run-{number}", heartbeat_interval_ms=60_000)
        now_ms = round(time.time() * 1000)
        summary = Summary(query_id, f"query-{number}", 7, now_ms, rows=100, rows_per_second=50.0)
        lease.heartbeat(state=QueryState.RUNNING, epoch=7, summary=summary)


def _slow(kind: Any, name: str, counted_as: str, call_ms: float) -> None:
    whole, never, lock = getattr(kind, name), threading.Event(), threading.Lock()

    def slow(*args: Any, **named: Any) -> Any:
        with lock:
            CALLS[counted_as] += 1
        never.wait(call_ms / 1000)
        return whole(*args, **named)

    setattr(kind, name, slow)
