"""Arguments of operators and sensors as they arrive: rendered templates are text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from engine.base.moments import iso_timestamp
from engine.errors import ConfigError

_Limit = TypeVar("_Limit", bound=float)


def whole_number(name: str, value: object, minimum: int = 0) -> int:
    """Read a whole number that may have come out of a template.

    :raises ConfigError: it is none, or less than ``minimum``.
    """
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        try:
            number = int(value.strip())
        except ValueError:
            number = None
    if number is None or number < minimum:
        raise ConfigError(
            f"{name} is {value!r}, and not a whole number from {minimum}.",
            hint="If it is a template, see in the task's rendered template what it became.",
        )
    return number


def given(**arguments: object) -> frozenset[str]:
    """Return the names of those that are said, as an operator is made; a template that renders to
    None, in a DAG of native objects, is no argument that was left out."""
    return frozenset(name for name, value in arguments.items() if value is not None)


def check_found(task: object, said: frozenset[str]) -> None:
    """Refuse to do without what a DAG says: another query or connection might be meant.

    :param task: an operator, notifier or trigger, its templates rendered.
    :param said: see :func:`given`.
    :raises ConfigError: a template has found nothing.
    """
    for name in sorted(said):
        if getattr(task, name) is None:
            raise ConfigError(
                f"{name} is None, though the DAG says it.",
                hint="Its template has found nothing; an argument that is not wanted is left out.",
            )


def optional_number(name: str, value: object, said: frozenset[str], minimum: int = 0) -> int | None:
    """Read a number that may be left out.

    :param said: see :func:`given`.
    :raises ConfigError: it is said, and no whole number, or less than ``minimum``.
    """
    return whole_number(name, value, minimum) if name in said else None


def instant(name: str, value: object) -> datetime:
    """Read a time that may have come out of a template: ISO 8601, as ``2026-11-24T00:00:00Z``.

    :raises ConfigError: it is none, or has no time zone.
    """
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip()))
        except ValueError:
            found = None
    if not isinstance(found, datetime) or found.tzinfo is None:
        raise ConfigError(
            f"{name} is {value!r}, and not a time with its zone.",
            hint="Write for example 2026-11-24T00:00:00+00:00. If it is a template, see in the "
            "task's rendered template what it became.",
        )
    return found


def iso_time(milliseconds: int) -> str:
    """Return a time since 1970 as ISO 8601 in UTC; of a year that Python does not know, as
    :func:`~engine.base.moments.iso_timestamp`."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat()
    except ValueError:
        return iso_timestamp(milliseconds)


def seconds(value: timedelta | float) -> float:
    """Return a duration in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def flag(name: str, value: object) -> bool:
    """Return what a DAG says of something that is on or off; for the constructors of operators.

    :param name: with the task's id, for the error.
    :raises ValueError: it is neither True nor False: any text, "False" too, would count as True.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it is True or False, and cannot be a template.")
    return value


def duration(name: str, value: object, minimum: float = 0.0) -> float:
    """Return a duration that a DAG says, in seconds; for the constructors of operators.

    :param name: with the task's id, for the error.
    :raises ValueError: it is neither a timedelta nor a finite number, or less than ``minimum``.
    """
    number = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not minimum <= number < math.inf:  # type: ignore[operator]
        raise ValueError(
            f"{name} is {value!r}; it is a timedelta, or a number of seconds from {minimum:g}."
        )
    return float(number)  # type: ignore[arg-type]


def optional_duration(name: str, value: object, minimum: float = 0.0) -> float | None:
    """As :func:`duration`, of what may be None."""
    return None if value is None else duration(name, value, minimum)


def optional_limit(name: str, value: _Limit | None) -> _Limit | None:
    """Return a limit that a DAG says, or None; for the constructors of operators.

    :param name: with the task's id, for the error.
    :raises ValueError: it is no finite number, or less than 0.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value < math.inf):
        raise ValueError(f"{name} is {value!r}; it is a number from 0, or None.")
    return value


def per_source(
    source: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None,
) -> list[Mapping[str, Any] | None]:
    """Return the description of a query's one source, or of all of them, as a list."""
    return [source] if isinstance(source, Mapping) else list(source or ())
