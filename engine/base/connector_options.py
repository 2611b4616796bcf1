"""Options of a connector: taken one by one with a check, and the rest refused.

::

    options = Options("source rate", given)
    rows_per_second = options.integer("rowsPerSecond", 1, minimum=1)
    options.refuse_others()

Names are case-insensitive. What the engine itself hands in begins with two underscores and is never
refused; so are ``checkpointLocation`` and ``queryName``, which Spark passes to every sink.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from engine.base.near_names import nearest
from engine.base.options import EngineOptions
from engine.errors import ConfigError

DEFAULT_PARALLELISM: Final = "__default_parallelism"
"""How many partitions a source has that leaves it to the engine."""
PARTITION_BY: Final = "__partition_by"
"""The columns of ``partitionBy``: a JSON list of names."""
SESSION_TIMEZONE: Final = "__session_timezone"
"""IANA name of the session's zone."""

_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})


class Options:
    """The options of one connector.

    :param owner: whose they are, for errors: ``source rate``.
    :param given: name to text.
    """

    def __init__(self, owner: str, given: Mapping[str, str]) -> None:
        self._owner = owner
        self._given = {name.lower(): str(value) for name, value in given.items()}
        self._taken: list[str] = []

    def text(self, name: str, default: str | None = None) -> str | None:
        """The value as it is."""
        self._taken.append(name)
        return self._given.get(name.lower(), default)

    def required(self, name: str, *, example: str) -> str:
        """The value, which must be there and not be blank."""
        value = self.text(name)
        if value is None or not value.strip():
            raise ConfigError(
                f"{self._owner} needs the option {name}.",
                hint=f'Set option("{name}", "{example}").',
            )
        return value

    def choice(self, name: str, default: str | None, allowed: Sequence[str]) -> str:
        """One of a few words, lower case; required if there is no default."""
        value = self.text(name, default)
        if value is None or value.strip().lower() not in allowed:
            raise self.wrong(name, value, f"one of {', '.join(allowed)}")
        return value.strip().lower()

    def integer(self, name: str, default: int, *, minimum: int, maximum: int = 2**63 - 1) -> int:
        """A whole number; both bounds are inclusive."""
        number = self.optional_integer(name, minimum=minimum, maximum=maximum)
        return default if number is None else number

    def optional_integer(self, name: str, *, minimum: int, maximum: int = 2**63 - 1) -> int | None:
        """As :meth:`integer`; None if the option is not given."""
        value = self.text(name)
        if value is None:
            return None
        upper = f" up to {maximum}" if maximum < 2**63 - 1 else ""
        try:
            number = int(value.strip())
        except ValueError:
            number = minimum - 1
        if not minimum <= number <= maximum:
            raise self.wrong(name, value, f"a whole number from {minimum}{upper}")
        return number

    def boolean(self, name: str, default: bool) -> bool:
        """``true`` or ``false``."""
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def character(self, name: str, default: str) -> str:
        """A single character; ``\\t`` is a tab."""
        value = self.text(name, default) or ""
        value = "\t" if value == "\\t" else value
        if len(value) != 1 or ord(value) > 127 or value in "\r\n":
            raise self.wrong(name, value, "a single ASCII character")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """A JSON list of names; empty if the option is not given."""
        value = self.text(name)
        return tuple(json.loads(value)) if value else ()

    def wrong(self, name: str, value: str | None, allowed: str) -> ConfigError:
        """The error for a value that is not allowed."""
        was = "is not set" if value is None else f"is {value!r}"
        return ConfigError(f"Option {name} of {self._owner} {was}: it must be {allowed}.")

    def refuse_others(self) -> None:
        """Call this when all options were taken.

        :raises ConfigError: one was given that nobody took; names the nearest one. At a sink that
            may be one of the engine, which are given there as well.
        """
        known = {name.lower(): name for name in self._taken}
        shown = sorted(name for key, name in known.items() if not key.startswith("__"))
        beside = EngineOptions.names() if self._owner.startswith("sink ") else []
        for name in self._given:
            if name in known or name in _SPARKS_OWN or name.startswith("__"):
                continue
            near = nearest(name, (*shown, *beside))
            hint = "" if near is None else f"Did you mean {near}? "
            there = f"There are {', '.join(shown)}." if shown else "It has no options."
            raise ConfigError(f"{self._owner} has no option {name!r}.", hint=f"{hint}{there}")
