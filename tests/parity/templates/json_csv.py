"""JSON and CSV."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.columns import draw, one_of, text

_JSON = [
    '{"a": 1, "b": "x"}', "[1, 2, 3]", "[]", "{}", "", "null", "1", '"x"', '{"a": {"b": [1]}}',
    "[[1], {}]", "{bad", '{"a": 1, "a": 2}', "[1,", '[1, "b", null]', " [1] ", '{"a": [1, 2]} x',
    '{"é😀": 1.50}', '{"a": [{"b": 1}, {"b": [2, 3]}], "c": "YQ=="}', '[{"a": 1}, {"a": "x"}]',
    "{'a': 'q'}", '{a: 01}', '{"a": "2020-01-02", "b": NaN}', '{"a": "1", "b": [tru]}',
    '{"a": "\\ud83d", "b": 2}', '{"a": 1.5e300, "b": "GMT2020-01-01"}', '[[1, [2]], [3], []]',
]  # fmt: skip
_CSV = [
    "1,x", "1", "", ",", "a,b,c", '"a,b",c', '"say \\"hi\\"",2', '"x""y",z', '"not closed',
    '"a" x,b', "2020-01-02,true", "1.5,NaN", " 1 , 2 ", "#c,d", "1;2", "1\t2", "\\", '"",""',
    "'q',1", "a\nb,c",
]  # fmt: skip

COLUMNS = {
    "js": (pa.string(), one_of(*_JSON)),
    "path": (pa.string(), one_of("$", "$.a", "$[*]", "$.a[*].b", "$[0]", "$.*", "$['b']", "a", "")),
    "csv": (pa.string(), draw(_CSV, text)),
}
_OPTIONS = (
    "'allowUnquotedFieldNames', 'true', 'allowNumericLeadingZeros', 'true',"
    " 'allowNonNumericNumbers', 'false', 'columnNameOfCorruptRecord', 'q'"
)

TEMPLATES = {
    "get_json_object": [
        "get_json_object(js, path)", "get_json_object(js, '$.a')", "get_json_object(js, '$[0]')",
        "get_json_object(js, '$.a[*].b')", "get_json_object(js, '$[*][*]')",
        "get_json_object(s, '$')", "get_json_object(raw, '$.a')",
    ],
    "from_json": [
        "from_json(js, 'a int, b string')",
        "from_json(js, 'a double')",
        f"from_json(js, 'a int, b double, q string', map({_OPTIONS}))",
        "from_json(js, 'array<int>', map('mode', 'FAILFAST'))",
        "from_json(js, 'a date, b timestamp, c binary', map('dateFormat', 'yyyy-MM-dd'))",
        "from_json(s, 'map<string, string>')",
        "from_json(raw, 'a string, b string')",
    ],
    "to_json": [
        "to_json(named_struct('a', i, 'b', s, 'c', p, 'd', ts))",
        "to_json(named_struct('a', raw))", "to_json(map(1, raw))",
        "to_json(named_struct('a', dt, 'b', bin, 'c', ntz), map('pretty', 'true'))",
        "to_json(struct(s), map('writeNonAsciiCharacterAsCodePoint', 'true'))",
        "to_json(struct(ts, dt), map('timestampFormat', 'yyyy/MM/dd HH:mm', 'dateFormat', 'D'))",
    ],
    "json_array_length": [
        "json_array_length(js)", "json_array_length(s)", "json_array_length(raw)",
    ],
    "json_object_keys": ["json_object_keys(js)", "json_object_keys(raw)"],
    "schema_of_json": ["""schema_of_json('{"a": [1, 2.5], "b": "x"}')""", "schema_of_json('[1]')"],
    "from_csv": [
        "from_csv(csv, 'a int, b string')",
        "from_csv(csv, 'a string, b string, q string', map('columnNameOfCorruptRecord', 'q'))",
        "from_csv(csv, 'a double, b boolean', map('mode', 'FAILFAST'))",
        "from_csv(csv, 'a date, b timestamp', map('nullValue', 'x', 'escape', '\"'))",
        "from_csv(csv, 'a string, b decimal(5,2)', map('sep', ';', 'comment', '#'))",
    ],
    "to_csv": [
        "to_csv(named_struct('a', i, 'b', s, 'c', p, 'd', ts))",
        "to_csv(struct(s, s2), map('sep', ';', 'quoteAll', 'true'))",
        "to_csv(struct(dt, bin, t, dec), map('dateFormat', 'dd.MM.yyyy', 'nullValue', '-'))",
    ],
    "schema_of_csv": ["schema_of_csv('1,abc')", "schema_of_csv('1.5,true,2020-01-01')"],
}  # fmt: skip
