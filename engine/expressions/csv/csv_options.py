"""The options of ``from_csv`` and ``to_csv``.

Source: ``CSVOptions`` of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.expressions.corrupt_records import CORRUPT_RECORD
from engine.expressions.csv.csv_lines import NONE, LineFormat
from engine.expressions.csv.csv_writing import LineWriter
from engine.expressions.options import OptionError, Options
from engine.expressions.record_printing import RecordPrinting
from engine.expressions.record_times import RecordTimes
from engine.expressions.times.zones import Zone
from engine.expressions.tree import Expr

_IDLE_FLAGS: Final = {"header", "inferschema", "enforceschema"}
_OF_READING: Final = {
    "mode", "columnnameofcorruptrecord", "nanvalue", "positiveinf", "negativeinf", "maxcolumns",
}  # fmt: skip
_OF_WRITING: Final = {"quoteall", "escapequotes"}
_KNOWN: Final = (
    _IDLE_FLAGS
    | _OF_READING
    | _OF_WRITING
    | {"sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "comment", "nullvalue"}
    | {"emptyvalue", "ignoreleadingwhitespace", "ignoretrailingwhitespace", "encoding", "charset"}
    | {"locale", "timezone", "dateformat", "timestampformat", "timestampntzformat"}
)


@dataclass(frozen=True)
class CsvReading:
    """How texts are read.

    :param corrupt: the name of the column for texts that do not fit.
    :param numbers: what numbers are called that are none, or not finite.
    """

    fails_fast: bool
    corrupt: str
    lines: LineFormat
    null_value: str
    numbers: dict[str, float]
    times: RecordTimes


@dataclass(frozen=True)
class CsvWriting:
    """How lines are written, and times in them.

    :param null_inside: what NULL is written as in an array, a map or a struct inside; with the
        blank in front.
    """

    lines: LineWriter
    times: RecordPrinting
    null_inside: str


def csv_reading(expr: Expr, default_zone: Zone) -> CsvReading:
    """The options of a ``CsvToStructs``.

    :raises OptionError: one is not supported.
    :raises UnsupportedPatternError: a pattern is not understood.
    """
    options = _options(expr)
    for name in _OF_WRITING:
        options.flag(name, False)
    times = RecordTimes.of(options, default_zone)
    # Of equal ones the first counts.
    numbers = {
        options.text("positiveinf", "Inf"): float("inf"),
        options.text("negativeinf", "-Inf"): float("-inf"),
        options.text("nanvalue", "NaN"): float("nan"),
    }
    if len(numbers) < 3:
        raise OptionError("two of the options nanValue, positiveInf and negativeInf are the same")
    session = expr.params.get(CORRUPT_RECORD) or "_corrupt_record"
    return CsvReading(
        options.fails_fast(),
        options.text("columnnameofcorruptrecord", session),
        _lines(options),
        options.text("nullvalue", ""),
        numbers,
        times,
    )


def csv_writing(expr: Expr, default_zone: Zone) -> CsvWriting:
    """The options of a ``StructsToCsv``.

    :raises OptionError: one is not supported.
    :raises UnsupportedPatternError: a pattern is not understood.
    """
    options = _options(expr)
    times = RecordPrinting.of(options, default_zone)
    quote, escape, escape_of_escape = _quotes(options)
    if NONE in (quote, escape):
        raise OptionError("an empty quote or escape is not supported when writing")
    comment = _char(options, "comment", NONE)
    trims = options.flag("ignoreleadingwhitespace", True)
    if trims != options.flag("ignoretrailingwhitespace", True):
        # Spark then writes parts of what it puts in place of blanks.
        raise OptionError("only one of ignoreLeadingWhiteSpace and ignoreTrailingWhiteSpace")
    lines = LineWriter(
        delimiter=_delimiter(options),
        quote=quote,
        escape=escape,
        escape_of_escape=escape_of_escape,
        comment="#" if comment == NONE else comment,
        null_value=options.text("nullvalue", ""),
        empty_value=options.text("emptyvalue", '""'),
        trims=trims,
        quotes_all=options.flag("quoteall", False),
        escapes_quotes=options.flag("escapequotes", True),
    )
    null = options.given("nullvalue")
    return CsvWriting(lines, times, null_inside="" if null is None else f" {null}")


def _options(expr: Expr) -> Options:
    options = Options(expr.params["options"], _KNOWN)
    for name in _IDLE_FLAGS:
        options.flag(name, False)
    options.check_locale()
    options.check_encoding()
    return options


def _lines(options: Options) -> LineFormat:
    quote, escape, escape_of_escape = _quotes(options)
    comment = _char(options, "comment", NONE)
    if options.flag("ignoretrailingwhitespace", False):
        # Spark's reader fails for some values in quotes.
        raise OptionError("the option ignoreTrailingWhiteSpace is not supported")
    columns = options.text("maxcolumns", "20480")
    if not (columns.isascii() and columns.isdigit() and 0 < int(columns) < 10**6):
        raise OptionError(f"the option maxColumns is {columns!r}, which is no number of columns")
    return LineFormat(
        delimiter=_delimiter(options),
        quote=quote,
        escape=escape,
        escape_of_escape=escape_of_escape,
        comment=None if comment == NONE else comment,
        null_value=options.text("nullvalue", ""),
        empty_value=options.text("emptyvalue", ""),
        trims_front=options.flag("ignoreleadingwhitespace", False),
        values_max=int(columns),
    )


def _delimiter(options: Options) -> str:
    delimiter = options.text("sep", options.text("delimiter", ","))
    if delimiter == "\\t":
        return "\t"
    if len(delimiter) != 1 or delimiter == "\\":
        raise OptionError(f"the option sep is {delimiter!r}, which is not one character")
    return delimiter


def _quotes(options: Options) -> tuple[str, str, str]:
    """The quote, what escapes it, and what escapes that."""
    quote, escape = _char(options, "quote", '"'), _char(options, "escape", "\\")
    escape_of_escape = _char(options, "chartoescapequoteescaping", NONE)
    if escape_of_escape == NONE and quote != escape:
        escape_of_escape = escape
    return quote, escape, escape_of_escape


def _char(options: Options, name: str, default: str) -> str:
    value = options.text(name, default) or NONE
    if len(value) > 1 or value > "\ufffe":
        raise OptionError(f"the option {name} is {value!r}, which is not one character")
    return value
