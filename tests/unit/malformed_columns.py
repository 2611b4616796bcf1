"""A column with texts that are no UTF-8, at every depth, and what Java reads there."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from engine.expressions.malformed import as_texts

TEXTS: Final = as_texts(pa.array([b"a\xffb", None, b"c"]))
READ: Final = ["a\ufffdb", None, "c"]

_FIELDS: Final = [pa.field("n", pa.int64(), False)]
_INNER: Final = pa.StructArray.from_arrays(
    [pa.nulls(1, pa.int64())], fields=_FIELDS, mask=pa.array([True])
)
BATCH: Final = pa.RecordBatch.from_pydict(
    {
        "t": TEXTS.slice(0, 1),
        "l": pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), TEXTS),
        "m": pa.MapArray.from_arrays(
            pa.array([0, 1], pa.int32()), TEXTS.slice(0, 1), TEXTS.slice(0, 1)
        ),
        "s": pa.StructArray.from_arrays([TEXTS.slice(0, 1), _INNER], ["x", "o"]),
    }
)
ROW: Final[dict[str, Any]] = {
    "t": READ[0],
    "l": READ,
    "m": {READ[0]: READ[0]},
    "s": {"x": READ[0], "o": None},
}
