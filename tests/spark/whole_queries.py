"""Queries as people write them, over the streams of a web shop, and their inputs.

They stand in ``whole_queries.sql``, each behind a comment with its name and its input; those with
Python functions in :mod:`tests.spark.function_queries`. ``products`` and ``countries`` are tables.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

_START = datetime(2024, 2, 28, 22, 15, 7, 123456, tzinfo=timezone.utc)
_UTC = pa.timestamp("us", tz="UTC")


def _raw(index: int) -> str | None:
    if index % 11 == 10:
        return None if index % 2 else "not json {"
    event: dict[str, Any] = {
        "id": index,
        "type": ["view", "cart", "buy", "refund"][index % 4],
        "user": {"name": f"Ann {index % 5}", "country": ["DE", "fr", None, "US"][index // 2 % 4]},
        "price": round(index * 1.37, 2) if index % 3 else None,
        "items": [{"sku": f"s{n}", "n": n} for n in range(index % 4)],
        "tags": ["a", "b", f"t{index % 3}"][: index % 4],
    }
    return json.dumps(event)


RAW: Final = pa.table(
    {
        "offset": pa.array(range(40), pa.int64()),
        "timestamp": pa.array([_START + timedelta(hours=7 * i) for i in range(40)], _UTC),
        "value": pa.array([_raw(i) for i in range(40)], pa.string()),
    }
)
_KINDS = ["c", "u", "d", "r"]
_ROW = pa.struct([("id", pa.int64()), ("name", pa.string()), ("total", pa.float64())])
_BEFORE = [{"id": i, "name": f"n{i}", "total": i * 1.5} if i % 4 in (1, 2) else None
           for i in range(16)]  # fmt: skip
_AFTER = [{"id": i, "name": f"N{i}", "total": i * 2.5} if i % 4 != 2 else None for i in range(16)]
CDC: Final = pa.table(
    {
        "op": pa.array([_KINDS[i % 4] for i in range(16)], pa.string()),
        "ts_ms": pa.array([1709157600000 + i * 61_003 for i in range(16)], pa.int64()),
        "before": pa.array(_BEFORE, _ROW),
        "after": pa.array(_AFTER, _ROW),
    }
)
_LINES = [
    '203.0.113.7 - - [28/Feb/2024:22:15:07 +0000] "GET /shop/item?id=12&r=m HTTP/1.1" 200 5124',
    '198.51.100.2 - bob [29/Feb/2024:00:00:01 +0000] "POST /cart HTTP/1.1" 302 -',
    '203.0.113.9 - - [29/Feb/2024:12:30:45 +0000] "GET /img/logo.png HTTP/2" 404 0',
    "kernel: something else entirely",
    "",
    '203.0.113.7 - eve [01/Mar/2024:07:08:09 +0000] "DELETE /shop/item?id=x HTTP/1.1" 500 77',
]
LOGS: Final = pa.table(
    {
        "value": pa.array([*_LINES, None] * 3, pa.string()),
        "host": pa.array([f"web-{i % 3:02d}.eu" for i in range(21)], pa.string()),
    }
)
PRODUCTS: Final = pa.table(
    {
        "sku": pa.array(["s0", "s1", "s2", "s2", None], pa.string()),
        "title": pa.array(["Socks", "Shirt", "Hat", "Hut", "?"], pa.string()),
        "vat": pa.array([7, 19, 19, 20, None], pa.int32()),
    }
)
COUNTRIES: Final = pa.table(
    {
        "code": pa.array(["DE", "FR", "US"], pa.string()),
        "country": pa.array(["Germany", "France", "United States"], pa.string()),
        "eu": pa.array([True, True, False]),
    }
)
INPUTS: Final = {"raw": RAW, "cdc": CDC, "logs": LOGS}

_EVENT = (
    "id BIGINT, type STRING, user STRUCT<name: STRING, country: STRING>, price DOUBLE,"
    " items ARRAY<STRUCT<sku: STRING, n: INT>>, tags ARRAY<STRING>"
)
_PARSED = f"(SELECT offset, timestamp, from_json(value, '{_EVENT}') AS e FROM {{stream}})"
_MACROS: Final = {
    "{flat}": f"(SELECT offset, timestamp, e.* FROM {_PARSED})",
    "{parsed}": _PARSED,
    "{event}": _EVENT,
    "{line}": r"""r'^(\S+) \S+ (\S+) \[([^\]]+)\] "(\S+) (\S+) ([^"]*)" (\d{3}) (\d+|-)$'""",
    "{stream}": "input_rows",
}


def _queries() -> dict[str, tuple[str, str]]:
    """Name → (name of the input, SQL over the view ``input_rows``)."""
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    found = {}
    for head, body in re.findall(r"^-- (.*)\n((?:(?!--).*\n)+)", text, re.MULTILINE):
        name, _, source = head.rpartition(": ")
        for macro, meaning in _MACROS.items():
            body = body.replace(macro, meaning)
        found[name] = (source, body.strip().removesuffix(";"))
    return found


SQL: Final = _queries()
