"""Generated arrays, maps and structs, for the families of templates that need them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from engine.expressions.types import TIMESTAMP
from tests.parity.columns import COLUMNS as ATOMIC
from tests.parity.columns import Column, Draw, draw, one_of, small, text
from tests.spark.edges import DOUBLES, SURROGATES

_ITEMS: Final = 6
"""No array or map has more: they shall be equal, overlap and repeat themselves often."""


def arrays(item: Draw) -> Draw:
    """Arrays of what ``item`` draws, NULL included; every fourth repeats its items."""

    def array(rng: random.Random) -> list[Any]:
        items = [item(rng) for _ in range(rng.randint(0, _ITEMS))]
        return items + items[: rng.randint(0, 3)] if rng.random() < 0.25 else items

    return draw([[], [None], [None, None]], array)


def structs(**fields: Draw) -> Draw:
    """Structs, sometimes NULL as a whole."""
    return draw([dict.fromkeys(fields)], lambda rng: {name: of(rng) for name, of in fields.items()})


def maps(keys: Sequence[Any], value: Draw) -> Draw:
    """Maps from some of the keys, in any order, to what ``value`` draws."""

    def entries(rng: random.Random) -> list[tuple[Any, Any]]:
        some = rng.sample(keys, rng.randint(0, min(_ITEMS, len(keys))))
        return [(key, value(rng)) for key in some]

    return draw([[]], entries)


_FEW: Final = small(-2, 4)
_DOUBLES: Final = draw(DOUBLES, lambda rng: float(rng.randint(-2, 2)))
_TEXTS: Final = draw(["", "a", "b", "ab", *SURROGATES, "é", "1"], text)
_KEYS: Final = ["", "a", "b", "é", "😀", "\uffff", "key", "1"]
_POINT: Final = pa.struct([("x", pa.int32()), ("y", pa.string())])
_RECORD: Final = pa.struct(
    [("no", pa.int32()), ("name", pa.string()), ("tags", pa.list_(pa.string())), ("at", _POINT)]
)
_LETTER: Final = one_of("a", "b", "")

COLUMNS: Final[Mapping[str, Column]] = {
    "ints": (pa.list_(pa.int32()), arrays(_FEW)),
    "ints2": (pa.list_(pa.int32()), arrays(_FEW)),
    "wides": (pa.list_(pa.int64()), arrays(ATOMIC["l"][1])),
    "doubles": (pa.list_(pa.float64()), arrays(_DOUBLES)),
    "doubles2": (pa.list_(pa.float64()), arrays(_DOUBLES)),
    "floats": (pa.list_(pa.float32()), arrays(ATOMIC["g"][1])),
    "exacts": (pa.list_(pa.decimal128(10, 2)), arrays(ATOMIC["dec"][1])),
    "flags": (pa.list_(pa.bool_()), arrays(one_of(True, False))),
    "texts": (pa.list_(pa.string()), arrays(_TEXTS)),
    "texts2": (pa.list_(pa.string()), arrays(_TEXTS)),
    "blobs": (pa.list_(pa.binary()), arrays(one_of(b"", b"\x00", b"\xff", b"a"))),
    "days": (pa.list_(pa.date32()), arrays(ATOMIC["dt"][1])),
    "moments": (pa.list_(TIMESTAMP), arrays(ATOMIC["ts"][1])),
    "nested": (pa.list_(pa.list_(pa.int32())), arrays(arrays(small(0, 2)))),
    "points": (pa.list_(_POINT), arrays(structs(x=small(0, 3), y=_LETTER))),
    "records": (
        _RECORD,
        structs(no=_FEW, name=_TEXTS, tags=arrays(_TEXTS), at=structs(x=_FEW, y=_LETTER)),
    ),
    "counts": (pa.map_(pa.string(), pa.int32()), maps(_KEYS, _FEW)),
    "counts2": (pa.map_(pa.string(), pa.int32()), maps(_KEYS, _FEW)),
    "rates": (pa.map_(pa.string(), pa.float64()), maps(_KEYS, _DOUBLES)),
    "named": (pa.map_(pa.int32(), pa.string()), maps(range(-2, 5), _TEXTS)),
    "lists": (pa.map_(pa.string(), pa.list_(pa.int32())), maps(_KEYS, arrays(_FEW))),
    "key": (pa.string(), one_of(*_KEYS)),
    "few": (pa.int32(), _FEW),
    "item": (pa.float64(), _DOUBLES),
}
"""Name → type and how to draw a value."""
