"""A fixed piece of work on one core: how fast this machine is at the moment."""

from __future__ import annotations

import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TIMES = 5
_NUMBERS = np.random.default_rng(1).integers(0, 1_000_000, 200_000)
_RECORD = {"id": 1, "name": "name 1", "price": 1 / 7, "parts": list(range(20))}


def yardstick_s() -> float:
    """Seconds that it takes, the best of some times."""
    return min(_took_s() for _ in range(TIMES))


def _took_s() -> float:
    began_s = time.perf_counter()
    for _ in range(1_000):
        json.loads(json.dumps(_RECORD))
    np.sort(_NUMBERS)
    numbers = pa.array(_NUMBERS)
    pc.sum(pc.add(pc.multiply(numbers, 3), 7))
    pc.value_counts(numbers)
    return time.perf_counter() - began_s
