"""Continuous stream processing for PySpark.

::

    from engine import write_stream

    query = write_stream(df).format("parquet").option("path", out) \\
        .option("checkpointLocation", checkpoint).trigger(continuous="1 second").start()

Names are resolved on first use: importing this package imports neither pyspark nor pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.checkpoint.checkpoint import Checkpoint
    from engine.errors import ContinuousError
    from engine.query.connections import connection_options
    from engine.query.handle import ContinuousQuery
    from engine.query.registration import register
    from engine.query.replay import EpochReplay, replay_epoch
    from engine.query.writer import ContinuousStreamWriter, write_stream
    from engine.registry.functions import SchemaRegistry
    from engine.sinks.foreach_batch import BatchContext

__all__ = [
    "BatchContext",
    "Checkpoint",
    "ContinuousError",
    "ContinuousQuery",
    "ContinuousStreamWriter",
    "EpochReplay",
    "SchemaRegistry",
    "connection_options",
    "register",
    "replay_epoch",
    "write_stream",
]
__version__ = "0.1.0"

_HOMES = {
    "BatchContext": "engine.sinks.foreach_batch",
    "Checkpoint": "engine.checkpoint.checkpoint",
    "ContinuousError": "engine.errors",
    "ContinuousQuery": "engine.query.handle",
    "ContinuousStreamWriter": "engine.query.writer",
    "EpochReplay": "engine.query.replay",
    "SchemaRegistry": "engine.registry.functions",
    "connection_options": "engine.query.connections",
    "register": "engine.query.registration",
    "replay_epoch": "engine.query.replay",
    "write_stream": "engine.query.writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    from engine.base.extras import needs_engine

    with needs_engine(f"engine.{name}"):
        return getattr(import_module(_HOMES[name]), name)
