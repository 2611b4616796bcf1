"""CAST between atomic types, and what tells about types, sessions and errors."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import draw, text

_WRITTEN = [
    "0", "1", "-1", "127", "128", "32768", "2147483648", "9223372036854775808", "1.5", "1e3", "NaN",
    "Infinity", "-inf", "true", "f", "yes", " 12 ", "+5", "1.", ".5", "1d", "0x1", "", "é", "1_0",
    "99999999.995", "2024-02-29", "2024-02-29 12:34:56.789", "null",
]  # fmt: skip

COLUMNS = {"w": (pa.string(), draw(_WRITTEN, text))}

_NUMERIC = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(8,2)",
    "decimal(38,18)",
]
_PAIRS = [
    *(
        (source, target)
        for source in ("b", "i", "l", "f", "d", "dec", "big", "t")
        for target in _NUMERIC[: -1 if source in "fd" else None]
    ),
    *(
        (source, "string")
        for source in ("t", "b", "h", "i", "l", "g", "p", "x", "dec", "big", "dt")
    ),
    *((source, "string") for source in ("ts", "ntz", "bin")),
    *((source, "boolean") for source in ("i", "d", "dec", "w")),
    *(("w", target) for target in (*_NUMERIC, "date", "timestamp", "timestamp_ntz", "binary")),
    *(("raw", target) for target in (*_NUMERIC, "boolean", "date", "timestamp", "binary")),
    *(("ts", target) for target in ("date", "timestamp_ntz", "bigint", "double")),
    *(("ntz", target) for target in ("date", "timestamp")),
    *(("dt", target) for target in ("timestamp", "timestamp_ntz")),
    *(("l", "timestamp"), ("i", "timestamp"), ("s", "binary")),
]
_NAMES = ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "date"]
_NAMES += ["timestamp", "decimal", "binary"]

TEMPLATES = {
    "cast": [f"cast({source} as {target})" for source, target in _PAIRS],
    "try_cast": [f"try_cast({source} as {target})" for source, target in _PAIRS],
    "::": ["w::int", "p::string", "i::decimal(5,1)"],
    **{name: [f"{name}(w)"] for name in _NAMES},
    "typeof": [
        "typeof(i)",
        "typeof(dec + 1)",
        "typeof(named_struct('a', s, 'b', ts))",
        "typeof(null)",
    ],
    "version": ["version()"],
    "current_user": ["current_user()", "user()", "session_user()"],
    "current_catalog": ["current_catalog()"],
    "current_path": ["current_path()"],
    "current_timezone": ["current_timezone()"],
    "current_database": ["current_database()", "current_schema()"],
    "assert_true": ["assert_true(i > -5)", "assert_true(t, 'no')", "assert_true(n < 12, s)"],
    "raise_error": ["if(n > 9, raise_error('too large'), n)", "if(t, raise_error(s), i)"],
}
