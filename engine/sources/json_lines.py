"""JSON lines as record batches: one object per line, read as Spark reads JSON.

There are two parsers. The fast one is Arrow's. It is used for a block only if each line is certain
to hold exactly one object; what it refuses is parsed again, line by line, with Spark's own rules
where they are wider: a number or an object becomes text in a STRING column, a decimal with too many
digits is rounded, ``"NaN"`` is a DOUBLE, a line with an array holds several rows. What these rules
refuse too is a bad record.

Unknown fields are ignored, missing ones are null. Field names are case-sensitive.

The kernel of ``from_json`` cannot serve here: in Spark it reads otherwise than files are read. It
ignores what follows the first value, and ``1.50`` becomes ``1.5`` in a STRING column.

Source: Spark's JacksonParser.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, Final

import pyarrow as pa
import pyarrow.json

from engine.expressions.times.civil import MICROS_PER_DAY, MICROS_PER_SECOND, from_days
from engine.sources.line_formats import LineFormat
from engine.sources.written_types import from_written, written_type

_SPECIAL_DOUBLES: Final = {
    "NaN": float("nan"),
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
_FEW_BYTES: Final = 2_000
"""Arrow's parser takes some 300 µs for a single line, this one 40: less latency."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


class _RawTextNeeded(Exception):
    """An object or an array goes into a STRING column: its text is wanted, blanks included."""


class _RawDict(dict[str, Any]):
    text: str


class _RawList(list[Any]):
    text: str


class _RawDecoder(json.JSONDecoder):
    """Remembers the text of objects and arrays. Written in Python, so it is slow."""

    def __init__(self) -> None:
        super().__init__(parse_float=_Number, parse_int=_Number, parse_constant=_Number)
        self.parse_object = functools.partial(self._raw, JSONObject, _RawDict)
        self.parse_array = functools.partial(self._raw, JSONArray, _RawList)
        self.scan_once = py_make_scanner(self)

    @staticmethod
    def _raw(
        parse: Callable[..., Any], kind: Any, text_and_start: tuple[str, int], *rest: Any
    ) -> tuple[Any, int]:
        text, start = text_and_start  # start is behind the bracket
        value, end = parse(text_and_start, *rest)
        value = kind(value)
        value.text = text[start - 1 : end]
        return value, end


_DECODER: Final = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)
_RAW_DECODER: Final = _RawDecoder()


class JsonLines(LineFormat):
    """See the module."""

    def __init__(self, schema: pa.Schema, session_timezone: str) -> None:
        super().__init__(schema)
        self._session_timezone = session_timezone
        self._written = pa.schema(
            [pa.field(field.name, written_type(field.type)) for field in schema]
        )
        self._arrow_can = not any(_needs_own_parser(field.type) for field in schema)

    def prune(self, columns: Sequence[str]) -> LineFormat:
        schema = pa.schema([self.schema.field(name) for name in columns])
        return JsonLines(schema, self._session_timezone)

    def _parse(self, block: bytes, at_start: bool) -> pa.RecordBatch:
        few = len(block) < _FEW_BYTES
        written = self._parse_fast(block) if self._arrow_can and not few else None
        if written is None:
            written = self._parse_by_line(block)
        columns = [
            from_written(column, field.type, self._session_timezone)
            for column, field in zip(written.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _parse_fast(self, block: bytes) -> pa.RecordBatch | None:
        block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        lines = block.count(b"\n")
        # Arrow's parser takes an object that spans lines and several on one line, and it crashes on
        # a line that is `null`. If every line break stands between } and {, it stands between two
        # objects; if there are then as many rows as lines, each line is one object.
        if not block.startswith(b"{") or block.count(b"}\n{") != lines - 1:
            return None
        try:
            block.decode("utf-8")  # which Arrow does not check
            table = pyarrow.json.read_json(
                pa.BufferReader(block),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block)),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._written, unexpected_field_behavior="ignore"
                ),
            )
        except (UnicodeDecodeError, pa.ArrowException):
            return None
        if table.num_rows != lines:
            return None
        (batch,) = table.combine_chunks().to_batches()
        return batch.select(self._written.names)

    def _parse_by_line(self, block: bytes) -> pa.RecordBatch:
        try:
            return self._decoded(block, _DECODER)
        except _RawTextNeeded:
            return self._decoded(block, _RAW_DECODER)

    def _decoded(self, block: bytes, decoder: json.JSONDecoder) -> pa.RecordBatch:
        rows: list[dict[str, Any]] = []
        for line in block.split(b"\n"):
            if line.strip():
                rows += _objects(line, decoder)
        columns = []
        for field, written in zip(self.schema, self._written, strict=True):
            convert, name = _converter(field.type), field.name
            values = [_converted(convert, row.get(name), name) for row in rows]
            columns.append(pa.array(values, written.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._written)


def _needs_own_parser(dtype: pa.DataType) -> bool:
    if pa.types.is_struct(dtype):
        return any(_needs_own_parser(field.type) for field in dtype)
    if pa.types.is_list(dtype):
        return _needs_own_parser(dtype.value_type)
    return bool(pa.types.is_map(dtype) or pa.types.is_decimal(dtype) or pa.types.is_null(dtype))


def _objects(line: bytes, decoder: json.JSONDecoder) -> list[dict[str, Any]]:
    try:
        value = decoder.decode(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    values = value if isinstance(value, list) else [value]
    for each in values:
        if not isinstance(each, dict):
            raise ValueError(f"the line holds {_shown(each)} where an object is due")
    return values


# -- one value ------------------------------------------------------------------------------------

Converter = Callable[[Any], Any]


def _converted(convert: Converter, value: Any, name: str) -> Any:
    try:
        return None if value is None else convert(value)
    except ValueError as exc:
        raise ValueError(f"field {name}: {exc}") from None


@functools.cache
def _converter(dtype: pa.DataType) -> Converter:
    """From a parsed JSON value, which is not null, to a Python value of the written type.

    :raises ValueError: (the function) the value does not fit.
    """
    if pa.types.is_struct(dtype):
        fields = {field.name: _converter(field.type) for field in dtype}
        return lambda value: _struct(value, fields)
    if pa.types.is_map(dtype):
        item = _converter(dtype.item_type)
        return lambda value: [
            (key, _converted(item, each, key)) for key, each in _of(dict, value).items()
        ]
    if pa.types.is_list(dtype):
        element = _converter(dtype.value_type)
        return lambda value: [_converted(element, each, "element") for each in _of(list, value)]
    if pa.types.is_decimal(dtype):
        return _decimal
    if pa.types.is_integer(dtype):
        limit = 1 << (dtype.bit_width - 1)
        return lambda value: _integer(value, limit)
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return _timestamp
    return _SIMPLE[dtype]


def _struct(value: Any, fields: Mapping[str, Converter]) -> dict[str, Any]:
    found = _of(dict, value)
    return {name: _converted(convert, found.get(name), name) for name, convert in fields.items()}


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _misfit(value, "an object" if kind is dict else "an array")
    return value


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (_RawDict, _RawList)):
        return value.text
    raise _RawTextNeeded


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, _Number) or not value:
        raise _misfit(value, "text")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _misfit(value, "true or false")
    return value


def _integer(value: Any, limit: int) -> int:
    if isinstance(value, _Number) and value.lstrip("-").isdigit():
        number = int(value)
        if -limit <= number < limit:
            return number
    raise _misfit(value, f"a whole number from {-limit} to {limit - 1}")


def _double(value: Any) -> float:
    if isinstance(value, _Number):
        return float(value)
    if isinstance(value, str) and value in _SPECIAL_DOUBLES:
        return _SPECIAL_DOUBLES[value]
    raise _misfit(value, "a number")


def _decimal(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _misfit(value, "a number")
    return value


def _timestamp(value: Any) -> str:
    if isinstance(value, _Number) and value.lstrip("-").isdigit():
        seconds = int(value)
        if not -(2**63) <= seconds < 2**63:
            raise _misfit(value, "a number of seconds that fits into 64 bits")
        try:
            return (_EPOCH + timedelta(seconds=seconds)).isoformat()
        except OverflowError:
            return _far_time(seconds)
    return _text(value)


def _far_time(seconds: int) -> str:
    """In a year that has not four digits."""
    # As in Spark, the product wraps around.
    micros = (seconds * MICROS_PER_SECOND + 2**63) % 2**64 - 2**63
    days, of_day = divmod(micros, MICROS_PER_DAY)
    year, month, day = map(int, from_days(days))
    clock = (datetime.min + timedelta(microseconds=of_day)).time().isoformat()
    return f"{year:+05d}-{month:02d}-{day:02d}T{clock}+00:00"


def _nothing(value: Any) -> None:
    raise _misfit(value, "null")


def _misfit(value: Any, due: str) -> ValueError:
    return ValueError(f"{_shown(value)} is not {due}")


def _shown(value: Any) -> str:
    return (value if isinstance(value, _Number) else json.dumps(value))[:40]


_SIMPLE: Final[dict[pa.DataType, Converter]] = {
    pa.string(): _string,
    pa.bool_(): _boolean,
    pa.float32(): _double,
    pa.float64(): _double,
    pa.date32(): _text,
    pa.timestamp("us"): _text,
    pa.binary(): _text,
    pa.null(): _nothing,
}
