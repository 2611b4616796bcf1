"""Which checkpoints people may see: those below the roots, and nothing else.

A root comes from the option ``[continuous] checkpoint_roots`` or from a connection of type
``continuous``. Whoever asks for a checkpoint by its location gets it only if it lies below a root,
after dots and symbolic links are resolved.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_continuous.connections.location import CheckpointLocation
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointError, ConfigError


class NotBelowRootsError(ConfigError):
    """The location is below none of the roots and no task has told of it, or nothing is there."""

    def __init__(
        self,
        message: str = "There is no such checkpoint that a task has started, or below the "
        "configured roots.",
        hint: str = "Roots are the option checkpoint_roots in the section [continuous], and the "
        "checkpoint root of each connection of type continuous.",
    ) -> None:
        super().__init__(message, hint=hint)


@dataclass(frozen=True)
class Root:
    """A folder of checkpoints.

    :param location: as configured; ``s3://my_conn@bucket/path`` names a connection.
    """

    location: str


def open_location(location: str) -> Checkpoint:
    """Open a checkpoint, without asking whether there is one.

    :raises CheckpointError: its connection cannot be used.
    """
    url, options = opened_by(location)
    return Checkpoint(url, storage_options=options)


def opened_by(location: str) -> tuple[str, dict[str, Any] | None]:
    """Return the URL and the storage options that open a location.

    :raises CheckpointError: its connection cannot be used.
    """
    parsed = CheckpointLocation.parse(location)
    try:
        return parsed.url, parsed.storage_options()
    except Exception as error:  # of whichever provider has the connection
        raise CheckpointError(f"{location} cannot be opened: {error}") from error


Place = tuple[tuple[str | None, str, str], str]
"""Connection, scheme and host; and the path without dots and links."""
Resolve = Callable[[Iterable[str]], Mapping[str, Place]]
"""Tells where locations are; leaves out what is none."""


def lies_below(place: Place, top: Place) -> bool:
    """Tell whether a place is another one, or in it."""
    return place[0] == top[0] and f"{place[1].rstrip('/')}/".startswith(f"{top[1].rstrip('/')}/")


def resolved_all(locations: Iterable[str]) -> dict[str, Place]:
    """Return where locations are, without those that are none; looks as :func:`resolved` does."""
    found = {}
    for location in locations:
        with suppress(ConfigError):
            found[location] = resolved(location)
    return found


def resolved(location: str) -> Place:
    """Return where a location is, however it is written. Looks at the disk, and may hang with it.

    :raises ConfigError: it is no location, or climbs out of an object store's folder.
    """
    (conn_id, scheme, host), path = as_written(location)
    if scheme == "file":
        path = os.path.realpath(path)
    return (conn_id, scheme, host), path


def as_written(location: str) -> Place:
    """The same without a look: as if there were no links on the disk.

    :raises ConfigError: as :func:`resolved`.
    """
    parsed = CheckpointLocation.parse(location)
    parts = urlsplit(parsed.url)
    if parts.scheme in ("", "file", "local"):
        # The path that would be opened, whatever is encoded in it.
        return (None, "file", ""), open_storage(parsed.url).url
    if ".." in parts.path.split("/"):
        raise ConfigError(f"The location {location!r} has dots in its path.")
    return (parsed.conn_id, parts.scheme, parts.netloc), posixpath.normpath(
        f"/{parts.path.lstrip('/')}"
    )
