"""The levels of the fault tests: one module each, with ``run(seed, seconds)``."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.faults.result import LevelResult


class Level(NamedTuple):
    """:param module: has ``run(seed: int, seconds: float) -> LevelResult``.
    :param short_s: its time in the short form; a level that enumerates takes a part then.
    :param long_s: its time in the long form.
    """

    module: str
    short_s: float
    long_s: float


LEVELS = {
    "L0": Level("tests.faults.l0_model", 15, 300),
    "mutants": Level("tests.faults.mutants", 60, 600),
}


def run_levels(names: Sequence[str], seed: int, *, long: bool) -> list[LevelResult]:
    """Run these levels, one after the other. What the engine logs about the faults is not shown."""
    results = []
    logging.disable(logging.CRITICAL)
    try:
        for name in names:
            level = LEVELS[name]
            began = time.monotonic()
            seconds = level.long_s if long else level.short_s
            result: LevelResult = importlib.import_module(level.module).run(seed, seconds)
            result.seconds = time.monotonic() - began
            results.append(result)
    finally:
        logging.disable(logging.NOTSET)
    return results
