"""JSON is read and written as by Spark, malformed and odd records included."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.types import TIMESTAMP
from tests.spark.edges import INF, NAN
from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark


def _texts(*texts: str | None) -> pa.Table:
    return pa.table({"s": [*texts, None]})


def _field(*values: str) -> pa.Table:
    return _texts(*(f'{{"a":{value}}}' for value in values))


_MALFORMED = [
    "", "  ", "null", "[]", '[{"a":1}]', "1", '"x"', "true", "nul", '{"a":1', '{"a":1}x',
    '{"a":1} {"a":2}', '{"a":1}}', '{"b":1,"a":5', '{"a":5,"b":tru}', "{'a':3}", "{a:3}",
    '{"a":1,}', ',{"a":1}', '\ufeff{"a":1}', '{"a":1}\x00', "\x00", '{"a" 1}', "// c\n{}",
    '{"a":3,"c":{"d":[}}', '{"a":01}', '{"a":+1}', '{"\\u0061":4}', '{"A":1}', "{}",
    '{"a":1,"a":2}', '{"a":1,"a":"x"}', '{"a":"x","a":1}', '{"a":1,"a":null}', '{"a":"","b":2}',
    '{"b":1,"a":2147483648}', '{"b":1,"a":[1,{"x":2}]}', '{"a":{"q":[1]},"b":7}', '{"a":"\\\'"}',
]  # fmt: skip


def test_malformed_records(spark: SparkSession) -> None:
    expressions = ["from_json(s, 'a int, b int')", "from_json(s, 'a string')"]
    expressions += ["from_json(s, 'map<string, string>')", "from_json(s, 'array<int>')"]
    assert_parity(spark, _texts(*_MALFORMED), expressions)


def test_failing_fast(spark: SparkSession) -> None:
    failing = "from_json(s, 'a int, b int', map('mode', 'FAILFAST'))"
    assert_parity(spark, _texts(*_MALFORMED), [failing], ansi=[True])


_NUMBERS = [
    "1", "-5", "127", "128", "255", "256", "-129", "32768", "2147483648", "9223372036854775807",
    "9223372036854775808", "-0", "1.0", "1e2", "1.5", "-0.0", "1e400", "0.1e-400", "1E5", ".5",
    "5.", "123456789012345678901234567890", "1.00000017881393432617187499", "16777217", "1.005",
    "12.344999", "99999", "NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF",
    '"NaN"', '"Infinity"', '"+Infinity"', '"-INF"', '"INF"', '"inf"', '"1.5"', '"2"', '"1e2"',
    '"1,000.5"', '" 1"', '""', '"x"', "true", '"true"', "null", "[1]", "{}",
]  # fmt: skip


def test_numbers(spark: SparkSession) -> None:
    types = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "boolean"]
    types += ["decimal(38,10)", "string"]
    assert_parity(spark, _field(*_NUMBERS), [f"from_json(s, 'a {t}')" for t in types])


_STRINGS = [
    '"x"', '"\\ud83d\\ude00"', '"\\ud83d"', '"a\tb"', '"a\\/b\\n"', '"é😀"', '"\x7f"', '"x\\q"',
    '"x\\u12"', '{"b": [1, 2.50 , null]}', '[ 1,"x\\u00e9😀" ]', "{'x':'y'}", '["\\ud83d"]',
    '{"b":1,"b":2, "c":[1.0e10, 1E-7,"\\u001f\\b\\/"]}', "  1.0  ", "1.10",
]  # fmt: skip


def test_strings(spark: SparkSession) -> None:
    expressions = ["from_json(s, 'a string')", "from_json(s, 'map<string, string>')"]
    expressions += ["get_json_object(s, '$.a')", "get_json_object(s, '$')"]
    assert_parity(spark, _field(*_STRINGS, *_NUMBERS), expressions, ansi=[True])


def test_dates_and_times(spark: SparkSession) -> None:
    table = _field(
        '"2020-01-01"', '"2020-1-1"', '"2020"', '"2020-01-01T12:00:00"', "18000", '"18000"',
        '"2020-02-30"', '" 2020-01-01 "', '"2020-01-01 x"', '"epoch"', '"123"', '"+5"', '"12 "',
        '"-141428"', '"99999999999"', '"2020-01-01 12:34:56"', '"2020-01-01T12:34:56.123456Z"',
        "1577836800", "1577836800.5", '"1577836800"', '""', '"2020-01-01 12:34:56 Europe/Paris"',
        '"2024-03-31T02:30:00"', '"2024-10-27 02:30:00"', '"2020-01-01T12:34:56+0100"',
        '"2020-01-01T12:34:56.1234567"', '"0001-01-01 00:00:00"', '"9999-12-31 23:59:59"', "null",
    )  # fmt: skip
    types = ["date", "timestamp", "timestamp_ntz"]
    expressions = [f"from_json(s, 'a {t}')" for t in types]
    assert_parity(spark, table, expressions, timezone="Europe/Berlin")


def test_nested_values(spark: SparkSession) -> None:
    values = [
        '{"x":1,"y":"q"}', '{"x":"bad","y":"q"}', "5", "[1]", "null", '""', "{}", '"x"', "[1,2]",
        '[1,"x",3]', "[1,null]", "[]", "[[1]]", '[{"x":1},{"x":"bad"}]', '[{"x":1},5]',
        '[null,{"x":2}]', '{"a":1,"b":2}', '{"a":"x","b":2}', '{"a":1,"a":2}', '{"a":null}',
        '{"a":{"x":1},"b":{"x":"bad"}}', '[[{"x":1}],[]]',
    ]  # fmt: skip
    table = _texts(*(f'{{"s":{value},"k":1}}' for value in values), *values)
    types = ["struct<x: int, y: string>", "array<int>", "array<struct<x: int>>", "map<string, int>"]
    types += ["map<string, struct<x: int>>", "array<array<struct<x: int>>>"]
    expressions = [f"from_json(s, 's {t}, k int')" for t in types]
    expressions += [f"from_json(s, '{t}')" for t in types]
    assert_parity(spark, table, expressions, ansi=[True])


_BROKEN = [
    '{"a":"q","k":5}', '{"a":[1],"k":5}', '{"a":{"k":7},"k":5}', '{"a":x,"k":5}', '{"a":1,"k":x}',
    '{"a":1 "k":5}', '{"a":1,}', '{"a":1]}', '["q",{"k":5}]', '[{"k":5},1]', "[1 2]", "[1,x]",
    "[1,]", '[x,{"k":3},4]', "[1}", '[1,{"k":4]}', '["a,', '{"x":1 "k":5}', '{"x":1,}', '{"x" 1}',
    '{x:1,"k":3}', '{"x":tru}', '{"x":[1,}', '{"x":"a\tb"}', '{"x":"a\\q,"}', '{"x":01}', "[1.,2]",
    "[-x]", "[+1]", "[01,2]", "[truex,1]", "[1e,2]", "[-INF]", "[.5]", "[nul]", "{", "[", '"', "x",
    '[{"x":1},x]', '[{"x":x},{"x":1}]', '["\\u12"]', "[Infinityx]", "['a\t,1]", "[0.x,1]",
]  # fmt: skip


def test_reading_goes_on_behind_what_is_malformed_inside(spark: SparkSession) -> None:
    table = _texts(*(f'{{"f":0,"s":{broken},"k":1,"l":2}}' for broken in _BROKEN))
    types = ["struct<x: int, k: int>", "array<int>", "map<string, int>", "string", "int"]
    types += ["array<struct<x: int>>", "array<double>", "array<string>"]
    expressions = [f"from_json(s, 's {t}, k int, f int, l int')" for t in types]
    expressions += ["from_json(s, 'map<string, string>')", "get_json_object(s, '$.k')"]
    assert_parity(spark, table, expressions, ansi=[True])


_SCHEMA = (
    "i int, l bigint, d double, f float, s string, b boolean, dt date, ts timestamp,"
    " dec decimal(6,2), st struct<i: int, s: string, ar: array<int>>, ar array<int>,"
    " m map<string, double>"
)
_FAST_SCHEMA = "i bigint, l string, d double, s string, b boolean, dt date, ts timestamp"


class _RandomJson:
    """Records of :data:`_SCHEMA`, some with values of other types, some damaged."""

    odd = ("null", "1", "1.5", "1e3", '"x"', "true", "[1]", "{}", '""', "NaN", "'q'", "-0", "[]")

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def record(self) -> str:
        rng = self._rng
        names = rng.choices(["i", "l", "d", "f", "s", "b", "dt", "ts", "dec", "st", "ar", "m"], k=6)
        text = "{" + ", ".join(f'"{name}":{self._value(name)}' for name in names) + "}"
        if rng.random() < 0.15:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", ",", "}", '"', "x", "]"]) + text[at + 1 :]
        return text

    def _value(self, name: str) -> str:
        rng = self._rng
        if rng.random() < 0.15:
            return rng.choice(self.odd)
        day = f"{rng.randrange(1, 9999):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 30):02}"
        clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
        return {
            "i": str(rng.randrange(-(10**9), 10**9)),
            "l": str(rng.randrange(-(2**63), 2**63)),
            "d": f"{rng.randrange(-9, 9)}.{rng.randrange(1000)}e{rng.randrange(-20, 20)}",
            "f": f"{rng.randrange(-9, 9)}.{rng.randrange(10**9)}",
            "s": json.dumps(
                rng.choice(["", "a", "é😀", 'q"\\\n']), ensure_ascii=rng.random() < 0.5
            ),
            "b": rng.choice(["true", "false"]),
            "dt": f'"{day}"',
            "ts": f'"{day}{rng.choice(" T")}{clock}{rng.choice(["", ".5", "Z", "+02:00"])}"',
            "dec": str(round(rng.uniform(-2000, 2000), rng.randrange(5))),
            "st": f'{{"i":{rng.choice(["1", "x", "2.5"])},"ar":[1,{rng.choice(["2", "null"])}]}}',
            "ar": f"[{rng.randrange(9)},{rng.choice(['1', 'null', '2.5'])}]",
            "m": f'{{"a":{rng.choice(["1.5", "null", "1"])},"{rng.choice("ab")}":2}}',
        }[name]


def test_random_records(spark: SparkSession) -> None:
    source = _RandomJson(7)
    table = _texts(*(source.record() for _ in range(400)))
    expressions = [f"from_json(s, '{_SCHEMA}')", f"from_json(s, '{_FAST_SCHEMA}')"]
    expressions += [
        f"get_json_object(s, '$.{path}')" for path in ("i", "d", "st.ar[0]", "m.a", "s")
    ]
    assert_parity(spark, table, expressions, ansi=[True], timezone="America/New_York")


def test_paths(spark: SparkSession) -> None:
    table = _texts(
        '{"a":{"b":[1,2.50,{"c":"x"}],"d":null,"e":true,"k.l":5},"b":"s\\"q","e":""}',
        "5", '"x"', "[1, 2]", "[[1,2],3]", '["x"]', "[null]", '[{"a":1}]', '{"a":1} x', "nul", "",
        " ", '{"a":1', "true", "1.0", "null", '{"a":null,"a":2}', '{"a":{"b":null},"a":{"b":2}}',
        "{'a':'q'}", '{"a":1,"b":tru}', '{"a":[]}', "5x", "5 x", '"x"y', "[1]x", '{"a":1e400}',
    )  # fmt: skip
    paths = ["$", "$.a", "$.b", "$.a.b", "$.a.b[0]", "$.a.b[2].c", "$.a.b[9]", "$.a.d", "$.e"]
    paths += ["$['a']['e']", "$.a['k.l']", "$[0]", "$[0].a", "$[1]", "$.a[1]", "$[00]"]
    assert_parity(spark, table, [f'get_json_object(s, "{path}")' for path in paths], ansi=[True])


def _random_columns() -> pa.Table:
    rng = random.Random(3)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    def column(make: Any, dtype: pa.DataType) -> pa.Array:
        return pa.array([maybe(make()) for _ in range(100)], dtype)

    texts = ["x", 'q"\\/\n\t\u0001\u001f\u007f\u2028é😀', ""]
    instants = column(lambda: rng.randrange(-62135510400000000, 253402214400000000), pa.int64())
    return pa.table(
        {
            "a": column(lambda: rng.randrange(-(2**63), 2**63), pa.int64()),
            "b": column(lambda: rng.choice([1.5, 1e-7, 1e7, -0.0, NAN, INF, 123.25]), pa.float64()),
            "c": column(lambda: rng.choice(texts), pa.string()),
            "d": column(lambda: rng.random() < 0.5, pa.bool_()),
            "e": column(lambda: rng.randrange(-719162, 2932896), pa.int32()).view(pa.date32()),
            "t": instants.view(TIMESTAMP),
            "arr": column(lambda: [maybe(1), maybe(2)][: rng.randrange(3)], pa.list_(pa.int32())),
            "m": column(
                lambda: [(f'k"{i}', maybe(0.5)) for i in range(rng.randrange(3))],
                pa.map_(pa.string(), pa.float64()),
            ),
            "st": column(
                lambda: {"x": maybe(1), "y": maybe(["p", None])},
                pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
            ),
            "dec": column(
                lambda: Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-9), pa.decimal128(18, 9)
            ),
            "f": column(lambda: rng.choice([0.1, 1e-5, 1e10, NAN, 3.4e38, 1.0]), pa.float32()),
            "bi": column(lambda: b"\x00\xff", pa.binary()),
        }
    )


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_writing(spark: SparkSession, zone: str) -> None:
    everything = "struct(a, b, c, d, e, t, arr, m, st, dec, f, bi, CAST(t AS TIMESTAMP_NTZ) AS n)"
    expressions = [
        f"to_json({everything})",
        f"to_json({everything}, map('ignoreNullFields', 'false'))",
        "to_json(arr)",
        "to_json(m)",
        "to_json(st)",
        'to_json(struct(m AS `q"x`))',
        "to_json(struct(1e0D AS x, 1E-7BD AS y))",
        "from_json(to_json(struct(a, c, d, arr, m, st)), 'a bigint, c string, d boolean,"
        " arr array<int>, m map<string, double>, st struct<x: int, y: array<string>>')",
    ]
    assert_parity(spark, _random_columns(), expressions, ansi=[True], timezone=zone)


@pytest.mark.parametrize(
    "expression",
    [
        "from_json(s, 'a int, _corrupt_record string')",
        "from_json(s, 'a int, _corrupt_record int', map('mode', 'PERMISSIVE'))",
        "from_json(s, 'a int', map('mode', 'DROPMALFORMED'))",
        "from_json(s, 'a int', map('allowComments', 'true'))",
        "from_json(s, 'a int', map('allowSingleQuotes', 'perhaps'))",
        "from_json(s, 'a int', map('locale', 'de-DE'))",
        "from_json(s, 'a date', map('dateFormat', 'QQQQ'))",
        "from_json(s, 'a timestamp', map('timeZone', 'Mars/Phobos'))",
        "to_json(struct(CAST(s AS DATE) AS d), map('dateFormat', 'HH'))",
        "to_json(struct(s), map('compression', 'gzip'))",
    ],
)
def test_refused(spark: SparkSession, expression: str) -> None:
    with pytest.raises(AssertionError, match="unsupported: the expression"):
        assert_parity(spark, _texts("{}"), [expression], ansi=[True])


def test_keys_of_maps(spark: SparkSession) -> None:
    """Those of dates and timestamps are numbers."""
    table = pa.table(
        {
            "b": [True, False],
            "n": pa.array([Decimal("1.20"), Decimal("-0.05")], pa.decimal128(10, 2)),
            "d": pa.array([0, -3], pa.date32()),
            "t": pa.array([0, 1_700_000_000_123_456], pa.timestamp("us", tz="UTC")),
        }
    )
    written = [f"to_json(map({column}, 1))" for column in table.column_names]
    numbers = "array(CAST('NaN' AS DOUBLE), 1e10D, 0.5D)"
    written += [f"to_json(map_from_arrays({numbers}, array(1, 2, 3)))"]
    assert_parity(spark, table, [*written, "to_json(map(CAST(t AS TIMESTAMP_NTZ), map(n, d)))"])
