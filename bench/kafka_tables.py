"""Kafka → filter, upper → files: from the start of a query until all is committed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping

from bench.kafka import PARTITIONS, SOURCE, in_sql, setting
from engine.checkpoint.checkpoint import Checkpoint

RECORDS = 3_000_000
RECORD = b"x" * 70


def measure(engine: str, sink: str, conf: Mapping[str, str] | None = None) -> None:
    """Print the figures of one engine as JSON.

    :param conf: what Spark needs for this sink.
    """
    ends = {SOURCE: {str(number): RECORDS // PARTITIONS for number in range(PARTITIONS)}}
    pause = threading.Event()
    with setting(engine, conf) as here:
        here.fill(RECORDS, RECORD)
        checkpoint = Checkpoint(str(here.checkpoint))
        began_s = time.monotonic()
        handle = here.start_to(in_sql(here.read()), sink, path=str(here.folder / "table"))
        while (checkpoint.committed_offsets() or [None])[0] != ends:
            pause.wait(0.05)
        took_s = time.monotonic() - began_s
        handle.stop()
    print(json.dumps({"rows/s": RECORDS / took_s}))
