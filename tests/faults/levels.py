"""The levels of the fault tests: one module each, with ``run(seed, seconds)``."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
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
    "L0": Level("tests.faults.l0_model", 12, 300),
    "L1": Level("tests.faults.l1_failpoints", 25, 900),
    "L3": Level("tests.faults.l3_torn_files", 12, 900),
    "mutants": Level("tests.faults.mutants", 60, 600),
}


def run_levels(names: Sequence[str], seed: int, *, long: bool) -> list[LevelResult]:
    """Run these levels, one after the other, each in a new process: some of them fork, which is
    safe only where nothing has started threads."""
    results = []
    for name in names:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            results.append(process.submit(_run, name, seed, long).result())
    return results


def _run(name: str, seed: int, long: bool) -> LevelResult:
    logging.disable(logging.CRITICAL)  # what the engine says about the faults is not of interest
    level = LEVELS[name]
    began = time.monotonic()
    seconds = level.long_s if long else level.short_s
    result: LevelResult = importlib.import_module(level.module).run(seed, seconds)
    result.seconds = time.monotonic() - began
    return result
