"""The patterns of dates and timestamps in records of JSON and CSV, as their options give them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from engine.expressions.options import Options
from engine.expressions.times.zones import Zone

_Patterns = TypeVar("_Patterns", bound="RecordPatterns")


@dataclass(frozen=True)
class RecordPatterns(ABC):
    """
    :param zone: the one of timestamps.
    :param dates: the pattern of dates, if there is one; likewise the others.
    """

    zone: Zone
    dates: str | None = None
    timestamps: str | None = None
    local_timestamps: str | None = None

    @classmethod
    def of(cls: type[_Patterns], options: Options, default_zone: Zone) -> _Patterns:
        """Those of the options.

        :raises OptionError: the zone is not known.
        :raises UnsupportedPatternError: a pattern is not understood.
        """
        found = cls(
            options.zone(default_zone),
            options.given("dateformat"),
            options.given("timestampformat"),
            options.given("timestampntzformat"),
        )
        found.check()
        return found

    @abstractmethod
    def check(self) -> None:
        """:raises UnsupportedPatternError: a pattern is not understood."""
