"""``format_string`` and ``printf``, for the conversions that mean the same whatever the locale::

    %[position$][flags][width][.precision]conversion

    s S   texts, whole numbers, booleans       d     whole numbers
    x X o whole numbers, in two's complement   f e   DOUBLEs
    b     booleans
    %% %n a percent sign, a line break

Source: ``FormatString`` in ``stringExpressions.scala`` of Spark; ``java.util.Formatter``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.datum import constant, constant_value
from engine.expressions.decimals import EXACT
from engine.expressions.java_doubles import double_text
from engine.expressions.json.jackson import as_utf8
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.texts.cases import UNICODE_17
from engine.expressions.tree import Expr
from engine.expressions.types import is_integral, sql_name
from engine.expressions.vectors import per_row_with_nulls

_FORM: Final = re.compile(
    r"%(?:(?P<position>[1-9][0-9]*)\$)?(?P<flags>[-#+ 0,(<]*)(?P<width>[1-9][0-9]*)?"
    r"(?:\.(?P<precision>[0-9]+))?(?P<conversion>[a-zA-Z%])"
)
_FLAGS: Final = {
    "s": "-", "S": "-", "b": "-", "d": "-+ 0,", "x": "-0", "X": "-0", "o": "-0",
    "f": "-+ 0,", "e": "-+ 0", "%": "", "n": "",
}  # fmt: skip
_WITH_PRECISION: Final = "sSbfe"

Piece = Callable[[tuple[Any, ...]], str]


class _UnsupportedFormatError(ValueError):
    """Why a format is refused."""


def _supports(expr: Expr) -> str | None:
    if constant(expr.children[0]) is None:
        return "the format must be a constant"
    text = constant_value(expr.children[0])
    try:
        list(_pieces(text or "", [child.dtype for child in expr.children[1:]]))
    except _UnsupportedFormatError as error:
        return str(error)
    return None


@strict(
    "FormatString",
    supports=_supports,
    loop=True,
    presumes=("spark.sql.legacy.allowZeroIndexInFormatString",),
    takes=Rare.ALL,
)
def format_string(expr: Expr, context: Context) -> ValueFunction:
    """``format_string``, ``printf``: NULL is written as ``null``."""
    text = constant_value(expr.children[0])
    if text is None:
        return lambda *values: pa.scalar(None, expr.dtype)
    pieces = list(_pieces(text, [child.dtype for child in expr.children[1:]]))

    def written(*values: Any) -> str:
        return "".join(piece(values) for piece in pieces)

    def function(_: Datum, *values: Datum) -> Datum:
        return per_row_with_nulls(written, expr.dtype, *values) if values else pa.scalar(written())

    return function


def _pieces(text: str, types: list[pa.DataType]) -> Iterator[Piece]:
    position, used = 0, 0
    for match in _FORM.finditer(text):
        yield _literal(text[position : match.start()])
        position = match.end()
        conversion = match["conversion"]
        if conversion in "%n":
            if match[0] not in ("%%", "%n"):
                raise _UnsupportedFormatError(f"the format {match[0]!r} is not supported")
            yield _constant("%" if conversion == "%" else "\n")
            continue
        index = int(match["position"] or 0) - 1
        if index < 0:
            index, used = used, used + 1
        if index >= len(types):
            raise _UnsupportedFormatError(f"there is no argument for {match[0]!r}")
        yield _piece(match, index, types[index])
    yield _literal(text[position:])


def _literal(text: str) -> Piece:
    if "%" in text:
        raise _UnsupportedFormatError(f"the format {text!r} is not understood")
    return _constant(text)


def _constant(text: str) -> Piece:
    return lambda values: text


def _piece(match: re.Match[str], index: int, dtype: pa.DataType) -> Piece:
    flags, conversion = match["flags"], match["conversion"]
    width, precision = int(match["width"] or 0), match["precision"]
    wrong = conversion not in _FLAGS or bool(set(flags) - set(_FLAGS[conversion]))
    wrong = wrong or len(set(flags)) < len(flags) or ({"+", " "} <= set(flags))
    wrong = wrong or bool(set("-0") & set(flags) and not width) or {"-", "0"} <= set(flags)
    wrong = wrong or (precision is not None and conversion not in _WITH_PRECISION)
    if wrong:
        raise _UnsupportedFormatError(f"the format {match[0]!r} is not supported")
    convert = _converter(conversion, flags, width, precision, dtype)

    def piece(values: tuple[Any, ...]) -> str:
        value = values[index]
        if value is None and conversion != "b":
            text = "null" if precision is None else "null"[: int(precision)]
            text = text.upper() if conversion in "SX" else text
        else:
            text = convert(value)
        padding = " " * (width - len(text) - sum(char > "\uffff" for char in text))
        return text + padding if "-" in flags else padding + text

    return piece


def _converter(
    conversion: str, flags: str, width: int, precision: str | None, dtype: pa.DataType
) -> Callable[[Any], str]:
    places = None if precision is None else int(precision)
    whole = is_integral(dtype)
    if conversion in "sS" and (whole or dtype in (pa.string(), pa.bool_())):
        as_text = str if not pa.types.is_boolean(dtype) else (lambda value: str(value).lower())
        upper = UNICODE_17.upper if conversion == "S" else str
        return lambda value: upper(_first(as_text(value), places))
    if conversion == "b":
        of_boolean = pa.types.is_boolean(dtype)
        return lambda v: ("true" if v or (v is not None and not of_boolean) else "false")[:places]
    if conversion == "d" and whole:
        return lambda value: _decorated(f"{abs(value)}", value < 0, flags, width)
    if conversion in "xXo" and whole:
        mask = (1 << dtype.bit_width) - 1
        return lambda value: _padded(f"{value & mask:{conversion}}", flags, width)
    if conversion in "fe" and pa.types.is_floating(dtype):
        used = 6 if places is None else places
        digits = _fixed if conversion == "f" else _scientific
        is_float = pa.types.is_float32(dtype)
        if is_float:
            raise _UnsupportedFormatError("a FLOAT has to be cast to DOUBLE")
        return lambda value: _of_double(value, digits, used, flags, width)
    raise _UnsupportedFormatError(f"%{conversion} of the type {sql_name(dtype)} is not supported")


def _first(text: str, units: int | None) -> str:
    """So many of Java's characters, of which those beyond U+FFFF are two."""
    if units is None or text.isascii():
        return text[:units]
    return as_utf8(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "surrogatepass"))


def _of_double(
    value: float, digits: Callable[[Decimal, int], str], places: int, flags: str, width: int
) -> str:
    if not math.isfinite(value):
        sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
        return "NaN" if math.isnan(value) else f"{sign}Infinity"
    text = digits(abs(Decimal(double_text(value))), places)
    return _decorated(text, math.copysign(1, value) < 0, flags, width)


def _fixed(value: Decimal, places: int) -> str:
    return f"{value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT):f}"


def _scientific(value: Decimal, places: int) -> str:
    exponent = value.adjusted() if value else 0
    rounded = value.scaleb(-exponent, EXACT).quantize(
        Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT
    )
    if rounded >= 10:
        exponent += 1
        rounded = rounded.scaleb(-1, EXACT).quantize(
            Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT
        )
    return f"{rounded:f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _decorated(digits: str, negative: bool, flags: str, width: int) -> str:
    """With a sign, commas and leading zeros."""
    if "," in flags:
        whole, point, rest = digits.partition(".")
        digits = f"{int(whole):,}{point}{rest}"
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    return sign + _padded(digits, flags, width - len(sign))


def _padded(digits: str, flags: str, width: int) -> str:
    return digits.rjust(width, "0") if "0" in flags else digits
