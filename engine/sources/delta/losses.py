"""What a table has lost, and what is only away.

A file that is not found is lost if the table is there without it. Behind a mount that is away, all
of a table's files are not found: its log, too.
"""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Final

from engine.errors import OffsetOutOfRangeError, SourceError, SourceUnavailableError
from engine.sinks.delta.places import LOG_FOLDER, Place
from engine.sources.delta.versions import OWNER, log_entry, unreadable

_DIGITS: Final = 20
"""Of a version, in names of the log."""


def check_there(place: Place) -> Set[str]:
    """The names of the log's entries and checkpoints.

    :raises SourceUnavailableError: it has none, is not there, or cannot be listed.
    """
    try:
        names = place.log_names()
    except FileNotFoundError:
        names = set()
    except OSError as exc:
        raise unreadable(place, "the log", exc) from exc
    found = {name for name in names if _is_entry(name) or _is_checkpoint(name)}
    if not found:
        raise SourceUnavailableError(
            f"{OWNER}: the table {place.url} is not there: its log is not found, or is empty.",
            hint="See that its storage is mounted here, and wherever tasks run.",
        )
    return found


def is_lost(place: Place, path: str) -> bool:
    """Whether a file that was not found is lost; else it is there again.

    :raises SourceUnavailableError: the table is not there.
    """
    check_there(place)
    try:
        is_gone = place.size(path) is None
    except OSError as exc:
        raise unreadable(place, path, exc) from exc
    check_there(place)  # it may have gone away in between
    return is_gone


def newest_version(place: Place, known: int) -> int:
    """How far the log has come. What is removed from it is older than its newest checkpoint; one
    without checkpoints is short.

    :param known: it has been as far as this.
    :returns: less than that if it is another log.
    :raises SourceUnavailableError: the table is not there, or cannot be read.
    """
    try:
        with place.open(f"{LOG_FOLDER}/_last_checkpoint") as file:
            return max(known, int(json.loads(file.read())["version"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return max(map(_version, check_there(place)))
    except OSError as exc:
        raise unreadable(place, "the log", exc) from exc


def first_kept(place: Place, number: int) -> int:
    """The first version from a lost one on that can be read, or that can come next."""
    names = check_there(place)
    entries = {_version(name) for name in names if _is_entry(name)}
    newest = max(map(_version, names))
    return min((each for each in entries if each > number), default=max(newest, number) + 1)


def file_error(place: Place, path: str, version: int) -> SourceError:
    """What it means that a data file was not found.

    :raises SourceUnavailableError: the table is not there.
    """
    if not is_lost(place, path):
        return SourceUnavailableError(
            f"{OWNER}: {path} of the table {place.url} was away, and is there again."
        )
    return OffsetOutOfRangeError(
        f"{OWNER}: {path} of version {version} of the table {place.url} is gone: the table was "
        "vacuumed before its rows were read.",
        hint="They are lost to this query. Start it with a checkpoint of its own, or keep files "
        "for longer: delta.deletedFileRetentionDuration.",
    )


def is_version_lost(place: Place, number: int) -> bool:
    """The same as :func:`is_lost`, of a version."""
    name = log_entry(number)
    return name not in check_there(place) and is_lost(place, f"{LOG_FOLDER}/{name}")


def _version(name: str) -> int:
    return int(name[:_DIGITS])


def _is_entry(name: str) -> bool:
    return name[:_DIGITS].isdigit() and name[_DIGITS:] == ".json"


def _is_checkpoint(name: str) -> bool:
    return name[:_DIGITS].isdigit() and name[_DIGITS:].startswith(".checkpoint.")
