"""Casts from STRING to numbers and booleans.

Source: ``UTF8String.toLong``, ``Double.parseDouble``, ``Decimal.fromString``, ``StringUtils`` of
Spark.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions import ansi
from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.decimals import fit
from engine.expressions.java_characters import DIGIT
from engine.expressions.vectors import to_list
from engine.expressions.whole_numbers import whole_number

BLANKS: Final = "".join(map(chr, [*range(0x21), 0x7F]))
"""What ``UTF8String.trimAll`` trims."""

JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What ``String.trim`` trims."""
_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_WITH_FRACTION: Final = re.compile(r"([+-]?[0-9]*)(?:\.[0-9]*)?")
_SPECIAL: Final = {
    "nan": "nan",
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "inf"),
    **dict.fromkeys(("-inf", "-infinity"), "-inf"),
}
# Were the point alone optional, between digits and digits, the time for what is no number would go
# with the square of its length.
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BIG_DECIMAL: Final = re.compile(_DECIMAL.pattern.replace("[0-9]", DIGIT))
"""Java's BigDecimal reads the digits of all scripts."""
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_EASY_WHOLE: Final = r"\A-?[0-9]{1,18}\z"
_EASY_NUMBER: Final = r"\A-?[0-9]+(\.[0-9]+)?\z"
_DIGITS_MAX: Final = 38
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def _all_match(array: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(array, pattern)).as_py() is not False


@conversion(("string", "boolean"))
def string_to_boolean(casting: Casting) -> Convert:
    """``t true y yes 1`` and ``f false n no 0``, in any case."""

    def parse(text: str) -> bool | None:
        word = text.strip(BLANKS).lower()
        return True if word in _TRUE else False if word in _FALSE else None

    return casting.per_value(parse)


@conversion(("string", "integral"))
def string_to_integral(casting: Casting) -> Convert:
    """LEGACY takes a fraction, too, and cuts it off."""
    bits = casting.target.bit_width
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int | None:
        text = text.strip(BLANKS)
        if casting.exact:
            digits = text if _WHOLE.fullmatch(text) else None
        else:
            match = _WITH_FRACTION.fullmatch(text)
            digits = match[1] if match and text not in ("", "+", "-") else None
            if digits in ("", "+", "-"):
                digits = "0"
        if digits is None:
            return None
        number = whole_number(digits)
        return number if low <= number <= high else None

    per_value = casting.per_value(parse)

    def convert(array: pa.Array) -> pa.Array:
        if _all_match(array, _EASY_WHOLE):
            try:
                return array.cast(pa.int64()).cast(casting.target)
            except pa.ArrowInvalid:
                return per_value(array)
        return per_value(array)

    return convert


@conversion(("string", "floating"))
def string_to_floating(casting: Casting) -> Convert:
    """What Java's ``parseDouble`` takes, and ``inf``, ``infinity``, ``nan`` in any case."""

    def readable(text: str) -> str | None:
        """The same number as Arrow reads it."""
        text = text.strip(JAVA_BLANKS)
        if (special := _SPECIAL.get(text.lower())) is not None:
            return special
        if text in ("+NaN", "-NaN"):
            return "nan"
        number = text[:-1] if text[-1:] and text[-1] in "fFdD" else text
        if _DECIMAL.fullmatch(number):
            return number
        number = number if _HEXADECIMAL.fullmatch(number) else text
        if _HEXADECIMAL.fullmatch(number):
            return _from_hexadecimal(number)
        return None

    to_text = Casting(casting.source, pa.string(), casting.mode, casting.zone_name)

    def convert(array: pa.Array) -> pa.Array:
        if _all_match(array, _EASY_NUMBER):
            return array.cast(casting.target)
        texts = []
        for text in to_list(array):
            number = None if text is None else readable(text)
            if number is None and text is not None and casting.ansi:
                raise casting.malformed(text)
            texts.append(number)
        return pa.array(texts, to_text.target).cast(casting.target)

    return convert


def _from_hexadecimal(text: str) -> str:
    try:
        return repr(float.fromhex(text))
    except OverflowError:
        return "-inf" if text.startswith("-") else "inf"


def big_decimal(text: str) -> Decimal | None:
    """What Java's BigDecimal reads, which has an INT for the exponent and one for the scale."""
    if not _BIG_DECIMAL.fullmatch(text):
        return None
    written = Decimal(text.lower().partition("e")[2] or 0)
    if not _INT_MIN <= written <= _INT_MAX:
        return None
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return value if _INT_MIN <= -exponent <= _INT_MAX else None


@conversion(("string", "decimal"))
def string_to_decimal(casting: Casting) -> Convert:
    """Rounded half up to the target's scale."""
    target = casting.target

    def parse(text: str) -> Decimal | None:
        value = big_decimal(text.strip(JAVA_BLANKS))
        if value is None:
            if casting.ansi:
                raise casting.malformed(text)
            return None
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        if not value and casting.reads_any_zero:
            return Decimal(0)
        if len(digits) + exponent > _DIGITS_MAX:
            if casting.ansi:
                raise ansi.failure(
                    "NUMERIC_OUT_OF_SUPPORTED_RANGE",
                    f"The value {text!r} cannot be interpreted as a numeric since it has more "
                    f"than {_DIGITS_MAX} digits.",
                )
            return None
        return fit(value, target, casting.ansi)

    def convert(array: pa.Array) -> pa.Array:
        return pa.array([None if t is None else parse(t) for t in to_list(array)], target)

    return convert
