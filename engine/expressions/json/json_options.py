"""The options of ``from_json`` and ``to_json``.

Many are of files, or of inference, and change nothing here.

Source: ``JSONOptions`` of Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.expressions.corrupt_records import CORRUPT_RECORD
from engine.expressions.json.jackson import Features
from engine.expressions.options import OptionError, Options
from engine.expressions.record_printing import RecordPrinting
from engine.expressions.record_times import RecordTimes
from engine.expressions.times.zones import Zone
from engine.expressions.tree import Expr

IGNORE_NULLS: Final = "spark.sql.jsonGenerator.ignoreNullFields"

_IDLE_FLAGS: Final = {
    "multiline", "primitivesasstring", "prefersdecimal", "dropfieldifallnull", "infertimestamp",
}  # fmt: skip
_IDLE: Final = _IDLE_FLAGS | {"encoding", "charset", "samplingratio", "linesep"}
_OF_BOTH: Final = {"locale", "timezone", "dateformat", "timestampformat", "timestampntzformat"}
_FEATURES: Final = {
    "allowsinglequotes": "single_quotes",
    "allowunquotedfieldnames": "unquoted_names",
    "allownumericleadingzeros": "leading_zeros",
    "allownonnumericnumbers": "names_of_numbers",
    "allowbackslashescapinganycharacter": "any_escape",
    "allowunquotedcontrolchars": "control_characters",
}
_READING: Final = _OF_BOTH | set(_FEATURES) | {"mode", "columnnameofcorruptrecord"}
_WRITING: Final = {"ignorenullfields", "pretty", "writenonasciicharacterascodepoint"}
_KNOWN: Final = _READING | _WRITING | _IDLE


@dataclass(frozen=True)
class JsonReading:
    """How texts are read.

    :param corrupt: the name of the column for texts that do not fit.
    """

    fails_fast: bool
    corrupt: str
    features: Features
    times: RecordTimes


def json_reading(expr: Expr, default_zone: Zone) -> JsonReading:
    """The options of a ``JsonToStructs``.

    :raises OptionError: one is not supported.
    :raises UnsupportedPatternError: a pattern is not understood.
    """
    options = _options(expr, _WRITING)
    defaults = Features()
    chosen = {
        field: options.flag(name, getattr(defaults, field)) for name, field in _FEATURES.items()
    }
    times = RecordTimes.of(options, default_zone)
    session = expr.params.get(CORRUPT_RECORD) or "_corrupt_record"
    corrupt = options.text("columnnameofcorruptrecord", session)
    return JsonReading(options.fails_fast(), corrupt, Features(**chosen), times)


def _options(expr: Expr, idle_flags: set[str]) -> Options:
    options = Options(expr.params["options"], _KNOWN)
    for name in _IDLE_FLAGS | idle_flags:
        options.flag(name, False)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", options.text("samplingratio", "1")) is None:
        raise OptionError("the option samplingRatio is not a number")
    if options.given("linesep") is not None and (
        options.given("linesep") == "" or (options.given("encoding") or options.given("charset"))
    ):
        raise OptionError("the option lineSep is not supported with an encoding, nor empty")
    options.check_locale()
    options.check_encoding()
    return options


@dataclass(frozen=True)
class JsonWriting:
    """How texts are written.

    :param keeps_nulls: of structs; arrays and maps always do.
    :param pretty: in many lines.
    :param ascii_only: other characters are escaped.
    """

    keeps_nulls: bool
    pretty: bool
    ascii_only: bool
    times: RecordPrinting


def json_writing(expr: Expr, default_zone: Zone) -> JsonWriting:
    """The options of a ``StructsToJson``.

    :raises OptionError: one is not supported.
    :raises UnsupportedPatternError: a pattern is not understood.
    """
    options = _options(expr, set(_FEATURES))
    ignores = expr.params.get(IGNORE_NULLS, "true") != "false"
    times = RecordPrinting.of(options, default_zone)
    return JsonWriting(
        not options.flag("ignorenullfields", ignores),
        options.flag("pretty", False),
        options.flag("writenonasciicharacterascodepoint", False),
        times,
    )
