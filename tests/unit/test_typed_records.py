"""What the fast way of ``from_json`` takes, it reads as the exact one does."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.json.json_columns import Builder
from engine.expressions.json.json_records import RecordReader
from engine.expressions.json.json_typed import TypedRecords
from engine.expressions.record_times import RecordTimes
from engine.expressions.times.zones import zone
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ

TIMES = RecordTimes(zone("Europe/Berlin"))
SCHEMA = pa.struct(
    {
        "i": pa.int64(), "b": pa.int8(), "d": pa.float64(), "s": pa.string(), "ok": pa.bool_(),
        "day": pa.date32(), "at": TIMESTAMP, "local": TIMESTAMP_NTZ, "A \"\\": pa.int32(),
        "": pa.int16(),
    }
)  # fmt: skip
VALUES: list[Any] = [
    0, 1, -1, 127, 128, 255, 256, -128, -129, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.0, 1.0,
    -0.5, 1e300, 5e-324, True, False, None, "", "text", "7", "1.5", "ü\U0001f600\x00", "2024-02-29",
    "2024-02-30", "2024-02-29T10:11:12.123456", "2024-02-29 10:11:12Z", "12:30", "today", [1], {},
    {"i": 1}, "GMT",
]  # fmt: skip
UNUSUAL = [
    "", " ", "null", "{}", "[]", "[{}]", '{"i":1} x', '{"i":1}{"i":2}', '{"i":01}', '{"i":+1}',
    '{"i":1.}', '{"i":.5}', '{"d":1.}', '{"d":-0}', '{"d":-0.0}', '{"d":-0e5}', '{"i":-0}',
    '{"i":1.0}', '{"i":1e2}', '{"d":1e400}', '{"d":-1e400}', '{"d":NaN}', '{"d":"NaN"}',
    '{"d":Infinity}', '{"d":+INF}', '{"i":1,"i":2}', '{"i":"x","i":2}', '{"i":2,"i":"x"}',
    '{"i":1,"i":null}', '{"x":01}', '{"x":1.}', '{"x":"\\x"}', '{"x":"\\ud800"}', '{"s":"\\ud800"}',
    '{"s":"\\ud83d\\ude00"}', '{"\\u0069":1}', '{"x":"a\nb"}', '{"s":"a\nb"}', '{"s":"a\tb"}',
    '{"s":"\x7f"}', '{"x":nul}', '{"x":tru,"i":1}', '{"x":[1,]}', '{"x":{"a":1,}}', '{"x":[1 2]}',
    '{"i":1,}', '{,"i":1}', "{'i':1}", "{i:1}", '{"I":1}', '\ufeff{"i":1}', '{"i":1}\x00',
    '\u00a0{"i":1}', '{"i":\u00a01}', '{"i":1}//', '{"i":/**/1}', '{"x":1e}', '{"x":-}',
    '{"x":NaN,"i":1}', '{"x":"\\u12"}', '{"x":"\\u00g0"}', '{"s":"\\/\\b\\f\\n\\r\\t\\"\\\\"}',
    '{"x":' + "[" * 1100 + "]" * 1100 + ',"i":1}', '{"x":' + "9" * 1001 + ',"i":1}',
    '{"x":1.' + "9" * 1001 + ',"i":1}', '{"d":' + "9" * 400 + "}", '{"d":0.' + "1" * 900 + "}",
    '{"d":1.7976931348623159e308}', '{"d":2.4703282292062327e-324}', '{"d":9007199254740993}',
    '{"x":' + '{"x":' * 300 + "1" + "}" * 300 + ',"i":1}', '{"s":1.10}', '{"s":{"a": 1}}',
    '{"x":"\udc00"}', '{"i":1', '{"i"', '{"i":1]', '{"x":[}', '{"x":"}', '{"x":1 "i":1}',
    '{"x" 1}', '{"x":00}', '{"x":-01}', '{"x":0x1}', '{"x":1_0}', '{"x":"\x01"}', '{"x\n":1}',
    '{"x\\x":1}', '{"x":True}', '{"":1,"i":1}', '{"i":1}]', '{"d":1E5}', '{"d":1e+5}', '{"d":1e-5}',
]  # fmt: skip


def _texts(rng: random.Random) -> list[str]:
    texts = []
    names = [*(field.name for field in SCHEMA), "x", "I"]
    for _ in range(400):
        chosen = {name: rng.choice(VALUES) for name in rng.sample(names, rng.randint(0, 5))}
        text = json.dumps(chosen, ensure_ascii=rng.random() < 0.5)
        if rng.random() < 0.5:  # somebody has written it by hand
            place = rng.randrange(len(text))
            piece = rng.choice([*"{}[]\",:\\ 0-.e1\n'", "null", "-0", '"i":1,', ""])
            text = text[:place] + piece + text[place + rng.randint(0, 2) :]
        texts.append(text)
    return texts


def _exactly(text: str) -> tuple[Any, bool]:
    value, is_whole = RecordReader(TIMES).read(text, SCHEMA)
    return Builder(TIMES, None).build([value], SCHEMA, range(1)), is_whole


@pytest.mark.parametrize("seed", range(10))
def test_what_is_taken_is_read_exactly(seed: int) -> None:
    texts = [each for each in UNUSUAL if _is_text(each)] + _texts(random.Random(seed))
    found, odd = TypedRecords(SCHEMA, TIMES).read(texts)
    for row in sorted(set(range(len(texts))) - set(odd)):
        value, is_whole = _exactly(texts[row])
        assert is_whole, texts[row]
        assert repr(value[0].as_py()) == repr(found[row].as_py()), texts[row]


def _is_text(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def test_ordinary_records_are_taken() -> None:
    record = {"i": 1, "b": -128, "d": 1, "s": "ü", "ok": True, "x": [1, {"i": "x"}]}
    times = {"day": "2024-02-29", "at": "2024-02-29T10:11:12", "local": "2024-02-29 10:11:12.5"}
    texts = [json.dumps(record), json.dumps(times), "{}", None, json.dumps({"i": None})]
    found, odd = TypedRecords(SCHEMA, TIMES).read(texts)
    assert odd == []
    assert found.is_valid().to_pylist() == [True, True, True, False, True]


@pytest.mark.parametrize("left_out", [None, "i", "s", "local"])
def test_few_records_are_those_of_many(left_out: str | None) -> None:
    record = {"i": 2**63 - 1, "b": -128, "d": 1, "s": "ü", "ok": True, 'A "\\': 7, "": -1}
    times = {"day": "2024-02-29", "at": "2024-02-29T10:11:12", "local": "2024-02-29 10:11:12.5"}
    whole, other = record | times, record | times | {"i": 0, "s": "", "ok": False}
    short = {name: value for name, value in whole.items() if name != left_out}
    texts = [json.dumps(each) for each in (whole, other, short, whole, other, whole)]
    many, odd = TypedRecords(SCHEMA, TIMES).read(texts)
    assert odd == []
    for start, count in itertools.product(range(3), range(5)):
        few, odd = TypedRecords(SCHEMA, TIMES).read(texts[start : start + count])
        few.validate(full=True)
        assert odd == []
        assert few.equals(many.slice(start, count))


def test_schemas_that_are_not_read_so() -> None:
    for dtype in (pa.float32(), pa.decimal128(5, 2), pa.binary(), pa.list_(pa.int64()), SCHEMA):
        assert not TypedRecords.fit(pa.struct({"a": dtype}), TIMES)
    assert not TypedRecords.fit(pa.struct({"Ä": pa.int64()}), TIMES)
    assert not TypedRecords.fit(pa.struct([]), TIMES)
    assert not TypedRecords.fit(pa.int64(), TIMES)
    assert TypedRecords.fit(SCHEMA, TIMES)
