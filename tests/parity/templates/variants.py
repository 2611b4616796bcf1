"""VARIANT."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import one_of

_JSON = [
    '{"a": 1, "b": "x", "c": {"d": [1, 2.50, null]}}', '[1, "b", null, true, {"a": 5}]', "[]", "{}",
    "", "null", "1", '"x"', "true", "{bad", '{"a": 1, "a": 2}', "[1,", " [1] ", '{"a": [1, 2]} x',
    '{"é😀": 1.50, "a": -0.0}', '{"b": {"a": 1}, "a": {"b": [2, {"z": 1, "y": 2}]}}', "1x", "-0",
    '{"a": "2020-02-29 12:30:00"}', '{"a": "2020-02-30"}', '{"a": 1e300, "b": 1E5, "c": -1.5e-7}',
    '{"a": 128, "b": 32768, "c": 2147483648}', '{"a": 9223372036854775808, "b": -1}',
    '{"a": -9223372036854775808}',
    '{"a": 0.1234567891, "b": 12345678901234567890123456789012345678}',
    "[1.0, 100, 1e2, 1.5]",
    '{"a": 123456789012345678901234567890123456789}',
    '{"a": 0.00000000000000000000000000000000000001}',
    "{'a': 1}", '{"a": NaN}', '{"a": 01}', '{"a": "\\ud83d"}', '{"a": "\\ud83d\\ude00"}', "nul",
    '{"a": "' + "x" * 64 + '"}', '{"\U00010000": 1, "\uffff": 2}',
    '["1", "1.5", "true", "abc", ""]',
    '[[{"a": 1}, {"A": 2}], [1, 1.5], [1.5, 1e3], [{"a": 1}, {"b": [null]}], [1, "x"]]',
    '{"a": {"x": 1, "y": "z"}, "b": [[1], [2, 3]], "a b": 7, "1": 2}', '"a\\u0001\\"\\n/\\\\"',
    '{"a": 99999999999999, "b": 1700000000.123456789, "c": "9223372036854775807"}',
]  # fmt: skip

COLUMNS = {
    "jv": (pa.string(), one_of(*_JSON)),
    "vpath": (
        pa.string(),
        one_of("$", "$.a", "$[0]", "$.a.b[1].z", "$['a b']", '$["b"]', "a", "", "$.", "$[x]"),
    ),
}
_TARGETS = (
    *("boolean", "tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,0)"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz", "array<int>", "array<string>"),
    *("map<string, string>", "struct<a: int, b: string, c: variant>", "variant", "array<variant>"),
)
_V = "try_parse_json(jv)"
_SCALARS = ("t", "b", "i", "l", "g", "p", "dec", "big", "s", "raw", "bin", "dt", "ts", "ntz")

TEMPLATES = {
    "try_parse_json": [_V, "try_parse_json(raw)", "CASE WHEN t THEN try_parse_json(jv) END"],
    "variant_get": [
        f"variant_get({_V}, vpath)",
        f"variant_get({_V}, vpath, 'string')",
        *(f"variant_get({_V}, '$.a', '{target}')" for target in _TARGETS),
        f"variant_get({_V}, '$[1]', 'int')", f"variant_get({_V}, '$', 'array<double>')",
        f"{_V}:a", f"{_V}:a.b[0]::string", f"{_V}:['a b']::int",
    ],
    "try_variant_get": [
        f"try_variant_get({_V}, vpath, 'bigint')",
        *(f"try_variant_get({_V}, '$', '{target}')" for target in _TARGETS),
        *(f"try_variant_get({_V}, '$.a', '{target}')" for target in _TARGETS),
        "try_variant_get(CAST(ts AS VARIANT), '$', 'string')",
    ],
    "is_variant_null": [f"is_variant_null({_V})", f"is_variant_null({_V}:a)"],
    "is_valid_variant": [f"is_valid_variant({_V})"],
    "schema_of_variant": [
        f"schema_of_variant({_V})",
        "schema_of_variant(CAST(array(CAST(i AS VARIANT), CAST(dec AS VARIANT)) AS VARIANT))",
        *(f"schema_of_variant(CAST({column} AS VARIANT))" for column in _SCALARS),
    ],
    "to_variant_object": [
        "to_variant_object(named_struct('b', i, 'a', s, 'c', array(d, p)))",
        "to_variant_object(map(s, i))", "to_variant_object(array(dt, NULL))",
        f"to_variant_object(struct(jv, {_V} AS v))", "to_variant_object(array(map('k', raw)))",
    ],
    # Casts and whatever else takes VARIANT.
    "parse_json": [
        "parse_json(jv)", "parse_json(s)", "parse_json(raw)",
        *(f"CAST({column} AS VARIANT)" for column in _SCALARS),
        "CAST(array(i, l) AS VARIANT)",
        *(f"CAST({_V} AS {target})" for target in _TARGETS),
        *(f"CAST(CAST({column} AS VARIANT) AS STRING)" for column in _SCALARS),
        *(f"TRY_CAST(CAST(ts AS VARIANT) AS {target})" for target in _TARGETS),
        *(f"TRY_CAST(CAST({column} AS VARIANT) AS TIMESTAMP)" for column in _SCALARS),
        f"to_json({_V})", f"to_json(struct({_V} AS v, i))", f"to_json(array({_V}))",
        f"to_json(named_struct('a', {_V}), map('pretty', 'true'))",
        "to_json(to_variant_object(array(struct(ts, ntz, dt, g, p, dec, bin, raw))))",
        f"typeof({_V})", f"typeof(array({_V}))",
        f"coalesce({_V}, CAST(i AS VARIANT))",
        f"if(t, {_V}, CAST(s AS VARIANT))",
        f"{_V} IS NULL", f"{_V} IS NOT NULL",
        f"array({_V}, CAST(i AS VARIANT))[m]",
        f"named_struct('v', {_V}).v",
    ],
}  # fmt: skip
