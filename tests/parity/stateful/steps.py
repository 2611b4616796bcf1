"""What the queries read: two streams, in steps, the same each time.

Times are out of order within a step, some are late by minutes, some by hours, some NULL; rows come
twice. Keys are what is hard to compare: NULL, -0.0, NaN, texts of any Unicode, decimals, structs.
The last step is a day later, so that it closes all windows before it.

Floating numbers are multiples of a quarter: whatever the order of additions, sums are the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_START: Final = datetime(2026, 11, 24, 8, tzinfo=timezone.utc)
_TEXTS: Final = ("a", "b", "", "Straße", "ﬀ", "e\u0301", "é", "\U0001f600", "a\x00b", None)
_NUMBERS: Final = (0.0, -0.0, float("nan"), 1.25, -7.5, float("inf"), None)
_TIME: Final = pa.timestamp("us", tz="UTC")
_STEPS: Final = 5
_ROWS: Final = 24

EVENTS: Final = pa.schema(
    [
        ("at", _TIME),
        ("id", pa.int64()),
        ("k", pa.string()),
        ("n", pa.int32()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(12, 2)),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("flag", pa.bool_()),
    ]
)
OTHERS: Final = pa.schema(
    [
        ("at2", _TIME),
        ("id2", pa.int64()),
        ("k2", pa.string()),
        ("n2", pa.int32()),
        ("d2", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Step:
    """What comes at once."""

    events: pa.Table
    others: pa.Table


def steps(seed: int = 7) -> list[Step]:
    """The whole input."""
    drawn = random.Random(seed)
    made = [_step(drawn, number) for number in range(_STEPS)]
    later = _START + timedelta(days=1)
    last_event = dict.fromkeys(EVENTS.names) | {"at": later, "id": -1, "k": "last", "n": 99}
    last_other = dict.fromkeys(OTHERS.names) | {"at2": later, "id2": -2, "k2": "last too"}
    made.append(_tables([last_event], [last_other]))
    return made


def _step(drawn: random.Random, number: int) -> Step:
    events: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for _ in range(_ROWS):
        a = drawn.choice((None, 1, 2))
        events.append(
            {
                "at": _time(drawn, number),
                "id": drawn.randrange(20),
                "k": drawn.choice(_TEXTS),
                "n": drawn.choice((None, 0, 1, 2, 3, -4)),
                "d": drawn.choice(_NUMBERS),
                "f": drawn.choice(_NUMBERS),
                "m": drawn.choice((None, Decimal("0.00"), Decimal("1.50"), Decimal("-99.99"))),
                "s": None if drawn.random() < 0.2 else {"a": a, "b": drawn.choice(_TEXTS)},
                "flag": drawn.choice((True, False, None)),
            }
        )
        others.append(
            {
                "at2": _time(drawn, number),
                "id2": drawn.randrange(20),
                "k2": drawn.choice(_TEXTS),
                "n2": drawn.choice((None, 0, 1, 2)),
                "d2": drawn.choice(_NUMBERS),
            }
        )
    events += drawn.sample(events, 4)  # which come twice
    return _tables(events, others)


def _time(drawn: random.Random, number: int) -> datetime | None:
    if drawn.random() < 0.04:
        return None
    behind = drawn.choices((0, 8, 45, 300), (70, 15, 10, 5))[0]
    minutes = number * 12 + drawn.randrange(14) - behind
    return _START + timedelta(minutes=minutes, seconds=drawn.choice((0, 30, 59.999999)))


def _tables(events: list[dict[str, Any]], others: list[dict[str, Any]]) -> Step:
    return Step(pa.Table.from_pylist(events, EVENTS), pa.Table.from_pylist(others, OTHERS))
