"""Generated input: columns of every type, a third of them edge values, a tenth of them NULL."""

from __future__ import annotations

import calendar
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from engine.expressions.decimals import EXACT
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.spark.edges import DOUBLES, TEXTS

Draw = Callable[[random.Random], Any]
Column = tuple[pa.DataType, Draw]

_EDGE_SHARE: Final = 0.35
_NULL_SHARE: Final = 0.1
_DAY: Final = 86_400
_MICROS: Final = 1_000_000


def draw(edges: Sequence[Any], otherwise: Draw) -> Draw:
    """An edge value, NULL or something random."""
    some = [edge for edge in edges if edge is not None]

    def choose(rng: random.Random) -> Any:
        dice = rng.random()
        if dice < _NULL_SHARE:
            return None
        return rng.choice(some) if dice < _NULL_SHARE + _EDGE_SHARE else otherwise(rng)

    return choose


def one_of(*values: Any) -> Draw:
    """One of these, or NULL."""
    return draw(values, lambda rng: rng.choice(values))


def whole(bits: int) -> Draw:
    """Whole numbers: mostly small, some of any size."""
    top = 1 << (bits - 1)
    edges = [0, 1, -1, 2, 7, 10, 100, top - 1, top - 2, -top, -top + 1]

    def number(rng: random.Random) -> int:
        if rng.random() < 0.6:
            return rng.randint(-100, 100)
        return rng.randint(-top, top - 1) >> rng.randint(0, bits - 1)

    return draw(edges, number)


def small(low: int, high: int) -> Draw:
    """Whole numbers of a range, both ends included."""
    return draw([low, high], lambda rng: rng.randint(low, high))


def _double(rng: random.Random) -> float:
    kind = rng.random()
    if kind < 0.3:
        return rng.uniform(-10, 10)
    if kind < 0.5:
        return round(rng.uniform(-1e6, 1e6), rng.randint(0, 5))
    if kind < 0.7:
        return float(rng.randint(-1000, 1000))
    if kind < 0.85:
        return rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30)
    return float(struct.unpack("<d", rng.randbytes(8))[0])


def _float(rng: random.Random) -> float:
    value = _double(rng)
    return value if abs(value) < 3e38 else 1.5


_FLOAT_EDGES: Final = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, float("nan"), float("inf"), float("-inf"), 3.4028234e38),
    *(1.4e-45, 1.17549435e-38, 16777216.0, 0.1),
]


def decimals(precision: int, scale: int) -> Draw:
    """DECIMALs of any size that fits."""
    largest = 10**precision - 1
    edges = [
        Decimal(n).scaleb(-scale, EXACT)
        for n in (0, 1, -1, largest, -largest, 10**scale, 5 * 10**scale)
    ]

    def number(rng: random.Random) -> Decimal:
        digits = rng.randint(1, precision)
        return Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale, EXACT)

    return draw(edges, number)


_LETTERS: Final = "abcdeABCDE012 _-.,;:/%&=+?'\"\\<>\t\n"
_UNUSUAL: Final = "äößéİıſǅΣςσњ中文ｆﬁ\u0301\u200d\xa0\u2028😀𝄞𐐀🇩🇪\x00\x7f\ufeff"
_TEXT_EDGES: Final = [
    *(text for text in TEXTS if text is not None),
    *("Straße", "ΑΣ", "ǆ", "ﬃ", "İstanbul", "  two  spaces ", "hello world", "Spark SQL", "😀😀"),
    *("a,b,c", "aaa", "AbC", "1.2.3.4", "\t tab", "e\u0301", "x" * 40),
]


def text(rng: random.Random) -> str:
    """A short text, sometimes with unusual letters."""
    letters = _LETTERS + _UNUSUAL if rng.random() < 0.3 else _LETTERS
    return "".join(rng.choice(letters) for _ in range(rng.randint(0, 12)))


_MALFORMED_EDGES: Final = [
    *(b"\xff", b"a\x80b", b"\x80", b"  \xed\xa0\x80 x ", b"\xc0\x80ab", b"\xf8a\xf5,b", b"12\xff"),
    *(
        b"\xe2\x82,b c1",
        b"\xf0\x9f\x98abc",
        b"caf\xc3\xa9\xc3 a",
        b"aa\xf0aaa",
        b"2024-02-29 \xffab",
    ),
    *(b"", b"abc", "\ufffda".encode(), b'{"a": "\xff\xe2\x82", "b": "x"}', b"a=1&b=\xff,x"),
]


def malformed(rng: random.Random) -> bytes:
    """A text that is mostly no UTF-8: bytes that begin or continue nothing, encoded surrogates,
    characters without their end. The last one is whole: else Spark reads on in its memory."""
    odd = [
        b"\xff",
        b"\x80",
        b"\xc3",
        b"\xe2\x82",
        b"\xf0\x9f",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf9",
    ]
    parts = [rng.choice(odd) if rng.random() < 0.4 else text(rng)[:4].encode() for _ in range(4)]
    return b"".join(parts) + b"abc"[: rng.randint(0, 3)].rjust(3, b"\xff")


def _bytes(rng: random.Random) -> bytes:
    return text(rng).encode() if rng.random() < 0.4 else rng.randbytes(rng.randint(0, 20))


_BYTES_EDGES: Final = [
    *(
        b"",
        b"\x00",
        b"\xff",
        b"abc",
        b"\x80\x81",
        b"a\xf0\x9f\x98\x80",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
    ),
    *(b"\xf4\x90\x80\x80", b"\xe2\x82", b"Spark"),
]


def _seconds(*when: int) -> int:
    return calendar.timegm(datetime(*when, tzinfo=timezone.utc).timetuple())


_DATE_EDGES: Final = [
    *(0, -1, 1, 11016, 18321, 19782, -719162, 2932896, -141428, -141427),  # leap days, 0001, 9999
    *(_seconds(y, m, d) // _DAY for y, m, d in [(2024, 2, 29), (1900, 2, 28), (2000, 12, 31)]),
    *(_seconds(y, m, d) // _DAY for y, m, d in [(2020, 1, 31), (2023, 3, 26), (2024, 12, 30)]),
]
_GAPS: Final = [
    # Around the changes of clocks of Berlin, New York and Lord Howe, and of the calendar.
    *(_seconds(2024, 3, 31, 1), _seconds(2024, 10, 27, 1), _seconds(2024, 3, 10, 7)),
    *(_seconds(2024, 11, 3, 6), _seconds(2024, 4, 6, 15), _seconds(2024, 10, 5, 15, 30)),
    *(_seconds(1883, 11, 18, 17), _seconds(1893, 3, 31, 23), 0, -62135596800, 253402300799),
]
_YEARS: Final = (_seconds(1600, 1, 1), _seconds(2400, 1, 1))


def _date(rng: random.Random) -> int:
    return rng.randint(*_YEARS) // _DAY if rng.random() < 0.5 else rng.randint(10957, 21000)


def _timestamp(rng: random.Random) -> int:
    kind = rng.random()
    if kind < 0.4:
        return (rng.choice(_GAPS) + rng.randint(-7300, 7300)) * _MICROS + rng.randint(0, 999_999)
    if kind < 0.7:
        return rng.randint(*_YEARS) * _MICROS + rng.randint(0, 999_999)
    return rng.randint(946684800, 1_800_000_000) * _MICROS


_TIMESTAMP_EDGES: Final = [
    *(s * _MICROS for s in _GAPS),
    *(0, -1, 1, 999_999, -1_000_001, 1_709_210_096_123_456, -62135596800 * _MICROS),
]

COLUMNS: Final[Mapping[str, Column]] = {
    "t": (pa.bool_(), one_of(True, False)),
    "u": (pa.bool_(), one_of(True, False)),
    "b": (pa.int8(), whole(8)),
    "b2": (pa.int8(), whole(8)),
    "h": (pa.int16(), whole(16)),
    "h2": (pa.int16(), whole(16)),
    "i": (pa.int32(), whole(32)),
    "i2": (pa.int32(), whole(32)),
    "l": (pa.int64(), whole(64)),
    "l2": (pa.int64(), whole(64)),
    "n": (pa.int32(), small(-3, 12)),
    "m": (pa.int32(), small(0, 5)),
    "f": (pa.float32(), draw(_FLOAT_EDGES, _float)),
    "f2": (pa.float32(), draw(_FLOAT_EDGES, _float)),
    "d": (pa.float64(), draw(DOUBLES, _double)),
    "d2": (pa.float64(), draw(DOUBLES, _double)),
    "x": (pa.float64(), draw([0.0, -0.0, 1.0, -1.0], lambda rng: rng.uniform(-3, 3))),
    # Java before 19 writes whole numbers beyond 2**53 (FLOAT: 2**24) with a digit more.
    "p": (
        pa.float64(),
        draw(DOUBLES, lambda rng: round(rng.uniform(-1e6, 1e6), rng.randint(0, 5))),
    ),
    "g": (pa.float32(), draw([0.0, -0.0, 0.1, float("nan")], lambda rng: rng.uniform(-100, 100))),
    "dec": (pa.decimal128(10, 2), decimals(10, 2)),
    "dec2": (pa.decimal128(12, 4), decimals(12, 4)),
    "big": (pa.decimal128(38, 10), decimals(38, 10)),
    "s": (pa.string(), draw(_TEXT_EDGES, text)),
    "s2": (pa.string(), draw(_TEXT_EDGES, text)),
    "c": (pa.string(), one_of("", "a", "b", " ", ",", "ab", "😀", "%", ".")),
    "raw": (pa.string(), draw(_MALFORMED_EDGES, malformed)),
    "bin": (pa.binary(), draw(_BYTES_EDGES, _bytes)),
    "bin2": (pa.binary(), draw(_BYTES_EDGES, _bytes)),
    "dt": (pa.date32(), draw(_DATE_EDGES, _date)),
    "dt2": (pa.date32(), draw(_DATE_EDGES, _date)),
    "ts": (TIMESTAMP, draw(_TIMESTAMP_EDGES, _timestamp)),
    "ts2": (TIMESTAMP, draw(_TIMESTAMP_EDGES, _timestamp)),
    "ntz": (TIMESTAMP_NTZ, draw(_TIMESTAMP_EDGES, _timestamp)),
    "ntz2": (TIMESTAMP_NTZ, draw(_TIMESTAMP_EDGES, _timestamp)),
}
"""Name → type and how to draw a value: what every family of templates may use."""


def table(columns: Mapping[str, Column], rows: int, seed: int) -> pa.Table:
    """A table of so many rows. Every column depends on its own name and the seed alone."""
    arrays = {}
    for name, (dtype, value) in columns.items():
        rng = random.Random(f"{seed} {name}")
        values = [value(rng) for _ in range(rows)]
        arrays[name] = _texts(values) if pa.types.is_string(dtype) else pa.array(values, dtype)
    return pa.table(arrays)


def _texts(values: Sequence[str | bytes | None]) -> pa.Array:
    """Bytes, as they are, stand for what is no UTF-8."""
    octets = [value.encode() if isinstance(value, str) else value for value in values]
    return pa.array(octets, pa.binary()).cast(pa.string(), safe=False)
