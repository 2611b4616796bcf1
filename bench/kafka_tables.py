"""Kafka → filter, upper → a table: from the start of a query until all is committed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.broker import PARTITIONS, SOURCE
from bench.kafka import Setting, in_sql, setting
from bench.size import sized
from engine.checkpoint.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS = sized(3_000_000, 3_000_000, 50_000)
"""The start is part of what is measured, so that fewer would change a ratio."""
RECORD = b"x" * 70


def measure(
    engine: str,
    start: Callable[[Setting, DataFrame], Any],
    conf: Mapping[str, str] | None = None,
) -> None:
    """Print the figures of one engine as JSON.

    :param start: writes it to the table; the handle.
    :param conf: what Spark needs for this sink.
    """
    ends = {SOURCE: {str(number): RECORDS // PARTITIONS for number in range(PARTITIONS)}}
    pause = threading.Event()
    with setting(engine, conf) as here:
        here.fill(RECORDS, RECORD)
        checkpoint = Checkpoint(str(here.checkpoint))
        began_s = time.monotonic()
        handle = start(here, in_sql(here.read()))
        while (checkpoint.committed_offsets() or [None])[0] != ends:
            assert handle.isActive, handle.exception()
            pause.wait(0.05)
        took_s = time.monotonic() - began_s
        handle.stop()
    print(json.dumps({"rows/s": RECORDS / took_s}))


def to_folder(here: Setting, df: DataFrame, sink: str) -> Any:
    """A table that is a folder; the handle."""
    return here.start_to(df, sink, path=str(here.folder / "table"))
