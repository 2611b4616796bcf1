"""``parse_json`` and ``try_parse_json``: a JSON text as VARIANT.

Numbers without an exponent are DECIMALs if they have up to 38 digits, and whole ones of up to 64
bits are whole numbers; the others are DOUBLEs. What follows the first value is ignored.

Source: ``VariantExpressionEvalUtils.parseJson`` and ``VariantBuilder`` of Spark.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.argument_types import Rare
from engine.expressions.json.jackson import (
    END_ARRAY,
    END_OBJECT,
    FALSE,
    FLOAT,
    INT,
    NAME,
    NULL,
    START_ARRAY,
    START_OBJECT,
    STRING,
    TRUE,
    Features,
    JsonError,
    JsonParser,
    Members,
    Number,
    as_utf8,
    may_be_too_much,
)
from engine.expressions.json.json_trees import no_number
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.variants import encoding
from engine.expressions.variants.building import (
    Event,
    Events,
    Octets,
    SizeError,
    VariantBuilder,
    append,
)
from engine.expressions.variants.columns import array_of
from engine.expressions.variants.encoding import SIZE_MAX, Piece
from engine.expressions.variants.variant_errors import too_large
from engine.expressions.vectors import of_columns, to_list

ALLOW_DUPLICATES: Final = "spark.sql.variant.allowDuplicateKeys"
VALIDATE_UNICODE: Final = "spark.sql.variant.validateUnicodeInJsonParsing"

_STRICT: Final = Features(single_quotes=False, names_of_numbers=False)
_INT64: Final = range(-(2**63), 2**63)
_PLAIN_MAX: Final = 10_000
"""Characters of a text that certainly has no name and no text that is too long for Jackson."""
_DEPTH_MAX: Final = 100
_NAME_MAX: Final = 50_000
_STRING_MAX: Final = 20_000_000
"""Of Jackson's ``StreamReadConstraints``, in units of UTF-16."""
_decode: Final = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_constant=no_number
).decode


@strict(
    "ParseJson",
    can_fail=lambda expr: bool(expr.params["fail_on_error"]),
    loop=True,
    reads=("fail_on_error", ALLOW_DUPLICATES, VALIDATE_UNICODE),
    takes=Rare.VARIANT,
)
def parse_json(expr: Expr, context: Context) -> ValueFunction:
    """What is not JSON raises, or is NULL."""
    keeps_last = expr.params[ALLOW_DUPLICATES] == "true"
    validates = expr.params[VALIDATE_UNICODE] == "true"

    def parse(text: str | None) -> Octets | None:
        if text is None:
            return None
        try:
            return octets_of_json(text, keeps_last, validates)
        except TransformError:
            if expr.params["fail_on_error"]:
                raise
            return None

    def convert(array: pa.Array) -> pa.Array:
        return array_of([parse(text) for text in to_list(array)])

    return of_columns(convert)


def octets_of_json(text: str, keeps_last: bool, validates: bool) -> Octets:
    """The first value of a JSON text.

    :param keeps_last: of several values of a name the last one is kept.
    :param validates: half of a surrogate pair is an error; else it becomes a question mark.
    :raises TransformError: the text is malformed, or the value is too large.
    """
    builder = VariantBuilder(keeps_last)
    try:
        if (tree := _tree(text)) is not _UNREAD:
            _Tree(builder, validates).append(tree)
        else:
            append(builder, _events(text, validates))
        return builder.result()
    except SizeError:
        raise too_large(SIZE_MAX, "parse_json") from None
    except (JsonError, TransformError) as error:
        raise _malformed(text, error) from None


def _malformed(text: str, cause: Exception) -> TransformError:
    return failure(
        "MALFORMED_RECORD_IN_PARSING",
        f"The record {text!r} is no JSON: {cause}.",
        "Use try_parse_json to get NULL instead.",
    )


_UNREAD: Final = object()


def _tree(text: str) -> Any:
    """What Python's :mod:`json` reads, where that is surely what Jackson does."""
    if len(text) > _PLAIN_MAX or text.count("[") + text.count("{") > _DEPTH_MAX:
        return _UNREAD
    if may_be_too_much(text):
        return _UNREAD
    try:
        return _decode(text)
    except ValueError:
        return _UNREAD


class _Tree:
    """Writes what :mod:`json` has read."""

    def __init__(self, builder: VariantBuilder, validates: bool) -> None:
        self._builder = builder
        self._validates = validates

    def append(self, value: Any) -> None:
        builder = self._builder
        if isinstance(value, Members):
            start, fields = builder.position, []
            for name, item in value:
                if self._validates:
                    _check_unicode(name)
                fields.append((name, builder.id_of(name), builder.position - start))
                self.append(item)
            builder.close_object(start, fields)
        elif isinstance(value, list):
            start, offsets = builder.position, []
            for item in value:
                offsets.append(builder.position - start)
                self.append(item)
            builder.close_array(start, offsets)
        else:
            builder.add(_piece(value, self._validates))


def _piece(value: Any, validates: bool) -> Piece:
    if value is None:
        return encoding.NULL_PIECE
    if isinstance(value, str):
        if validates:
            _check_unicode(value)
        return encoding.text(as_utf8(value).encode())
    if isinstance(value, bool):
        return encoding.truth(value)
    if isinstance(value, int):
        return encoding.whole(value) if value in _INT64 else _number(str(value))
    return _number(value.text)


def _number(text: str) -> Piece:
    """As DECIMAL if it is written without an exponent and has not too many digits."""
    if "e" not in text and "E" not in text:
        whole, _, fraction = text.partition(".")
        piece = encoding.decimal(int(whole + fraction), len(fraction))
        if piece is not None:
            return piece
    return encoding.double(float(text))


def _check_unicode(text: str) -> None:
    """:raises JsonError: there is half of a surrogate pair."""
    if not text.isascii() and as_utf8(text) != text:
        raise JsonError("a text has half of a surrogate pair")


def _events(text: str, validates: bool) -> Events:
    """What Jackson tells of the first value."""
    parser = JsonParser(text, _STRICT)
    depth = 0
    token = parser.next()
    while True:
        if token == NAME:
            name = str(parser.name)
            _check_length(name, _NAME_MAX)
            if validates:
                _check_unicode(name)
            yield Event.NAME, name
        elif token in (START_OBJECT, START_ARRAY):
            depth += 1
            yield Event.OBJECT if token == START_OBJECT else Event.ARRAY, None
        elif token in (END_OBJECT, END_ARRAY):
            depth -= 1
            yield Event.END, None
        else:
            yield Event.SCALAR, _scalar(parser, validates)
        if depth == 0:
            return
        token = parser.next()


def _scalar(parser: JsonParser, validates: bool) -> Piece:
    if parser.token in (TRUE, FALSE):
        return encoding.truth(parser.token == TRUE)
    if parser.token == NULL:
        return encoding.NULL_PIECE
    if parser.token not in (STRING, INT, FLOAT):
        raise JsonError("a value is missing")
    value = parser.value
    if parser.token == STRING:
        _check_length(value, _STRING_MAX)
    return _piece(value, validates)


def _check_length(text: str, length_max: int) -> None:
    """:raises JsonError: there are more units of UTF-16."""
    units = len(text)
    if units <= length_max < 2 * units:
        units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    if units > length_max:
        raise JsonError(f"a name or a text has more than {length_max} characters")
