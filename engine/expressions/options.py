"""The options of ``from_json``, ``from_csv`` and their relatives: texts under names in any case.

What is not honoured exactly is refused by its name; Spark itself passes over what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from engine.expressions.java_charsets import CODECS
from engine.expressions.times.datetime_patterns import UnsupportedPatternError
from engine.expressions.times.zones import Zone, zone
from engine.expressions.tree import Expr

_FLAGS = {"true": True, "false": False}


class OptionError(ValueError):
    """Why a node with these options is refused."""


class Options:
    """Those of one node.

    :param given: as the user wrote them.
    :param known: names, in lower case.
    :raises OptionError: there are others, or one is given twice.
    """

    def __init__(self, given: Mapping[str, str | None], known: Collection[str]) -> None:
        unknown = sorted(name for name in given if name.lower() not in known)
        if unknown:
            raise OptionError(f"the options {unknown} are not supported")
        self._values = {name.lower(): value for name, value in given.items()}
        if len(self._values) < len(given) or None in self._values.values():
            raise OptionError("an option is NULL, or given twice")

    def text(self, name: str, default: str) -> str:
        value = self._values.get(name)
        return default if value is None else value

    def given(self, name: str) -> str | None:
        """What the user gave, or None."""
        return self._values.get(name)

    def flag(self, name: str, default: bool) -> bool:
        """:raises OptionError: it is neither true nor false."""
        value = self._values.get(name)
        if value is None:
            return default
        if value.lower() not in _FLAGS:
            raise OptionError(f"the option {name} is {value!r}, which is not true or false")
        return _FLAGS[value.lower()]

    def fails_fast(self, default: str = "PERMISSIVE") -> bool:
        """Whether the mode is ``FAILFAST``; else it is ``PERMISSIVE``.

        :raises OptionError: it is another.
        """
        mode = self.text("mode", default).upper()
        if mode not in ("PERMISSIVE", "FAILFAST"):
            raise OptionError(f"the mode {mode} is not supported")
        return mode == "FAILFAST"

    def zone(self, default: Zone) -> Zone:
        """Of the option ``timeZone``.

        :raises OptionError: nobody knows it.
        """
        name = self._values.get("timezone")
        if name is None:
            return default
        try:
            return zone(name)
        except ValueError as error:
            raise OptionError(str(error)) from None

    def check_locale(self) -> None:
        """:raises OptionError: it is not that of the United States."""
        locale = self.text("locale", "en-US")
        if locale.lower() != "en-us":
            raise OptionError(f"the locale {locale} is not supported")

    def check_encoding(self) -> None:
        """It says nothing about texts, but Spark fails for one that it does not know.

        :raises OptionError: it is such a one.
        """
        for name in ("encoding", "charset"):
            encoding = self.text(name, "UTF-8")
            if encoding.upper() not in CODECS:
                raise OptionError(f"the {name} {encoding!r} is none of {', '.join(CODECS)}")


def may_fail_fast(default: str) -> Callable[[Expr], bool]:
    """``can_fail`` of a kernel that raises only in the mode ``FAILFAST``.

    :param default: the mode where the options name none.
    """

    def can_fail(expr: Expr) -> bool:
        given = {name.lower(): value for name, value in expr.params["options"].items()}
        return str(given.get("mode", default)).upper() != "PERMISSIVE"

    return can_fail


def refused_for(read: Callable[[Expr], Any]) -> Callable[[Expr], str | None]:
    """``supports`` of a kernel whose options ``read`` reads."""

    def supports(expr: Expr) -> str | None:
        try:
            read(expr)
        except (OptionError, UnsupportedPatternError) as error:
            return str(error)
        return None

    return supports
