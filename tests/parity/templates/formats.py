"""Numbers by patterns."""

from __future__ import annotations

import random

import pyarrow as pa

from tests.parity.columns import draw

_NUMBERS = [
    *("", " ", "0", "1", "12", "123", "-12", "+12", "12-", "12+", "1.5", ".5", "5.", "-.5", "1 2"),
    *("$5", "$12.34", "-$1.2", "5$", "<12>", "<1.5>", "<12", "12>", "1,234", "12,34", ",123", "1,"),
    *("123,456.78", "$1,234.5-", "<$7.00>", "1,234,567", "0012", "\u0661\u0662", "1.2.3", "- 5"),
    *("\u0967,\u0968\u0969\u096a", "12345678901234567890", "999", "9" * 21, "\U0001d7cf", "#", "$"),
]  # fmt: skip


def _number(rng: random.Random) -> str:
    return "".join(rng.choice("0123456789,.$+-<> 123") for _ in range(rng.randint(1, 9)))


COLUMNS = {"num": (pa.string(), draw(_NUMBERS, _number))}

_PATTERNS = [
    *("999", "000", "S999", "999MI", "MI999", "999S", "999PR", "$999", "9", "99.99", "999D00"),
    *("9,999", "9G999", "0,000", "0,999", "9,000.00", "999,999.99S", "S$999,999.99", ".99", "9."),
    *("$.99", "$9,999.99PR", "0.", ".9S", "999,999,999.999PR", "mi09.90", "$0,000.00mi"),
    *("9" * 18 + ".9", "S" + "9" * 20, "." + "9" * 20, "90,09.9", "99,9,999.90S"),
]  # fmt: skip
_TYPES = ["dec", "dec2", "i", "b", "h", "l", "n", "big"]

TEMPLATES = {
    "to_number": [f"to_number(num, '{pattern}')" for pattern in _PATTERNS]
    + ["to_number(num, NULL)", "to_number(c, concat('9', 'G99'))"],
    "try_to_number": [f"try_to_number(num, '{pattern}')" for pattern in _PATTERNS[::4]]
    + ["try_to_number(s, '$9.9')"],
    "to_varchar": [f"to_varchar(dec, '{pattern}')" for pattern in _PATTERNS]
    + [f"to_varchar({column}, 'S99,999.99')" for column in _TYPES]
    + ["to_varchar(n, NULL)", "to_varchar(p, '9999999.99PR')", "to_varchar(dec2, '$00,099.9MI')"]
    + [
        "to_varchar(g, '999.99')",
        "to_varchar(ts, 'HH:mm')",
        "to_varchar(bin, 'hex')",
        "to_varchar(num, '999')",
    ],
}
