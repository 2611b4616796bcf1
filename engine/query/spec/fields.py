"""Checks a document against a table of its fields and collects everything that is wrong with it.

A *reader* takes a value and its :class:`Place` in the document and returns the value as the engine
uses it. It never raises: it reports to the place and returns None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

_VARIABLE = re.compile(r"\$(\$)?\{(\w+)\}")


@dataclass(frozen=True)
class Place:
    """Where in the document a reader stands, and what it may look at.

    :param path: e.g. ``source.options.rowsPerSecond``; empty at the top.
    :param problems: grows; shared by all places of the document.
    :param environ: the variables that ``${NAME}`` stands for.
    :param is_needed: whether variables at a path must be set; others read as empty then.
    :param folder: what relative paths of folders are relative to.
    """

    environ: Mapping[str, str]
    folder: Path
    path: str = ""
    problems: list[str] = field(default_factory=list)
    is_needed: Callable[[str], bool] = lambda path: True

    def at(self, key: str) -> Place:
        """The place of a key below this one."""
        return replace(self, path=f"{self.path}.{key}" if self.path else key)

    def report(self, problem: str) -> None:
        """Add to the document's problems."""
        self.problems.append(f"{self.path}: {problem}" if self.path else problem)


Reader = Callable[[Any, Place], Any]


@dataclass(frozen=True)
class Field:
    """One key of a section; a missing one reads as ``default``."""

    read: Reader
    required: bool = False
    default: Any = None


def section(fields: Mapping[str, Field]) -> Reader:
    """A mapping with exactly these keys; reads as a dict with all of them."""

    def read(value: Any, place: Place) -> dict[str, Any] | None:
        if not isinstance(value, Mapping):
            place.report(f"must be a mapping with the keys {', '.join(fields)}, not {name(value)}")
            return None
        for key in value:
            if key not in fields:
                place.at(str(key)).report(_unknown(str(key), fields))
        result = {}
        for key, known in fields.items():
            given = value.get(key)
            if given is not None:
                result[key] = known.read(given, place.at(key))
                continue
            if known.required:
                place.at(key).report("is missing")
            result[key] = known.default
        return result

    return read


def verbatim(value: Any, place: Place) -> str | None:
    """Text that is not empty."""
    if not isinstance(value, str):
        place.report(f"must be text, not {name(value)}")
        return None
    if not value.strip():
        place.report("must not be empty")
        return None
    return value


def text(value: Any, place: Place) -> str | None:
    """Text that is not empty. ``${NAME}`` is replaced."""
    read = verbatim(value, place)
    return None if read is None else _substitute(read, place)


def choice(*allowed: str) -> Reader:
    """One of these words, in any case."""

    def read(value: Any, place: Place) -> str | None:
        if isinstance(value, str) and value.lower() in allowed:
            return value.lower()
        place.report(f"must be {' or '.join(allowed)}, not {value!r}")
        return None

    return read


def options(value: Any, place: Place) -> dict[str, str]:
    """As :func:`settings`, of which no two have names that differ in capitals only."""
    result = settings(value, place)
    first: dict[str, str] = {}
    for key in result:
        same = first.setdefault(key.lower(), key)
        if same != key:
            place.report(
                f"{same} and {key} are one option, whose name may be in any case; leave one out"
            )
    return result


def settings(value: Any, place: Place) -> dict[str, str]:
    """A mapping to text, numbers and truth values, which read as Spark writes them."""
    if not isinstance(value, Mapping):
        place.report(f"must be a mapping, not {name(value)}")
        return {}
    result = {}
    for key, item in value.items():
        there = place.at(str(key))
        if isinstance(item, bool):
            result[str(key)] = str(item).lower()
        elif isinstance(item, str | int | float):
            result[str(key)] = _substitute(str(item), there)
        else:
            there.report(f"must be text, a number, true or false, not {name(item)}")
    return result


def names(value: Any, place: Place) -> tuple[str, ...]:
    """One text, or a list of them."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        place.report(f"must be a list of texts, not {name(value)}")
        return ()
    read = (
        text(item, replace(place, path=f"{place.path}[{index}]"))
        for index, item in enumerate(items)
    )
    return tuple(item for item in read if item is not None)


def several_options(value: Any, place: Place) -> dict[str, dict[str, str]]:
    """A mapping of names to mappings as :func:`options` reads them."""
    if not isinstance(value, Mapping):
        place.report(f"must be a mapping, not {name(value)}")
        return {}
    found = {}
    for key, item in value.items():
        there = place.at(str(key))
        if isinstance(item, str):
            report_connection(item, there)
        else:
            found[str(key)] = options(item, there)
    return found


def report_connection(value: Any, place: Place) -> None:
    """A connection that nobody has looked up."""
    place.report(
        f"{value!r} is a connection of Airflow, which only Airflow's operators look up; without "
        "them, give what it says as options"
    )


def folders(value: Any, place: Place) -> tuple[Path, ...]:
    """Existing folders of this machine, absolute."""
    paths = [(place.folder / item).resolve() for item in names(value, place)]
    for path in paths:
        if not path.is_dir():
            place.report(f"there is no folder {path}")
    return tuple(paths)


def name(value: Any) -> str:
    """What a document's author calls the type of a value."""
    if isinstance(value, Mapping):
        return "a mapping"
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "nothing" if value is None else type(value).__name__)


def literal(value: str) -> str:
    """Text as a document has to hold it, to be read as it is: ``${NAME}`` is none in it."""
    return re.sub(r"\$(?=\{\w+\})", "$$", value)


def _unknown(key: str, known: Mapping[str, Field]) -> str:
    plain = {candidate.replace("_", ""): candidate for candidate in known}
    close = get_close_matches(re.sub(r"[_\W]", "", key).lower(), plain, n=1)
    if close:
        return f"unknown key; did you mean {plain[close[0]]}?"
    return f"unknown key; the keys here are {', '.join(known)}"


def _substitute(value: str, place: Place) -> str:
    def variable(found: re.Match[str]) -> str:
        escaped, variable_name = found.groups()
        if escaped:
            return f"${{{variable_name}}}"
        if variable_name not in place.environ and place.is_needed(place.path):
            place.report(f"the environment variable {variable_name} is not set")
        return place.environ.get(variable_name, "")

    return _VARIABLE.sub(variable, value)
