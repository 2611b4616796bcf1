"""Dates and timestamps as they are written into JSON and CSV.

Source: ``JSONOptions``, ``CSVOptions``, ``DateFormatter`` and ``TimestampFormatter`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import pyarrow as pa

from engine.expressions.casts.cast_texts import date_text
from engine.expressions.record_patterns import RecordPatterns
from engine.expressions.times.datetime_patterns import refusal, tokens
from engine.expressions.times.datetime_printing import Moments, printer
from engine.expressions.times.zones import offset_text, zone
from engine.expressions.types import TIMESTAMP_NTZ
from engine.expressions.vectors import to_list, to_numpy

_DEFAULT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_OF_ZONES: Final = frozenset("xXZV")
_OF_CLOCKS: Final = frozenset("HhKkmsSa") | _OF_ZONES
Texts = list[str | None]


class RecordPrinting(RecordPatterns):
    """How they are written."""

    def check(self) -> None:
        _ = self._date_printer, self._timestamp_printer, self._local_printer

    @cached_property
    def _date_printer(self) -> Callable[[Moments], list[str]] | None:
        return _printer(self.dates, _OF_CLOCKS)

    @cached_property
    def _timestamp_printer(self) -> Callable[[Moments], list[str]] | None:
        return _printer(self.timestamps, frozenset())

    @cached_property
    def _local_printer(self) -> Callable[[Moments], list[str]] | None:
        return _printer(self.local_timestamps, _OF_ZONES)

    def dates_of(self, array: pa.Array) -> Texts:
        """The texts of a column of dates, None for NULL."""
        if self._date_printer is None:
            return [None if days is None else date_text(days) for days in to_list(array)]
        moments = Moments.midnights(to_numpy(array)[0], _UTC)
        return _where_valid(array, self._date_printer(moments))

    def timestamps_of(self, array: pa.Array) -> Texts:
        """The texts of a column of timestamps with or without a zone, None for NULL."""
        is_local = array.type == TIMESTAMP_NTZ
        moments = Moments(to_numpy(array)[0], _UTC if is_local else self.zone)
        by_pattern = self._local_printer if is_local else self._timestamp_printer
        texts = (by_pattern or printer(_DEFAULT))(moments)
        if by_pattern is None and not is_local:
            offsets = map(offset_text, moments.offset_seconds.tolist())
            texts = [text + offset for text, offset in zip(texts, offsets, strict=True)]
        return _where_valid(array, texts)


def _printer(pattern: str | None, missing: frozenset[str]) -> Callable[[Moments], list[str]] | None:
    if pattern is None:
        return None
    for token in tokens(pattern):
        if token.letter in missing:
            raise refusal(pattern, f"{token.letter!r} says what the type does not know")
    return printer(pattern)


def _where_valid(array: pa.Array, texts: list[str]) -> Texts:
    valid = array.is_valid().to_pylist()
    return [text if ok else None for ok, text in zip(valid, texts, strict=True)]


_UTC: Final = zone("UTC")
