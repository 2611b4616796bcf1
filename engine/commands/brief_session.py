"""Spark for a command that looks at a query, and runs nothing that Ctrl-C would have to drain."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from engine.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def brief_session(
    conf: Mapping[str, str], app_name: str, python_path: Iterable[Path]
) -> Iterator[SparkSession]:
    """As :func:`engine.spark.session.build_session`; it is stopped in the end.

    Ctrl-C ends the block with KeyboardInterrupt, and in silence: traces of what was under way, in
    Python and in Java, would be all that there is to read.
    """
    noted: list[int] = []
    # While Java starts it is too early: nobody would know it, nor end it.
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        spark = build_session(conf, app_name, python_path)
        try:
            signal.signal(signal.SIGINT, _interrupt)
            if noted:
                raise KeyboardInterrupt
            yield spark
        except KeyboardInterrupt:
            with suppress(Exception):
                spark.sparkContext.setLogLevel("OFF")
            raise
        finally:
            spark.stop()
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


def _interrupt(number: int, frame: FrameType | None) -> None:
    logging.disable()
    raise KeyboardInterrupt
