"""Which checkpoints people may see: those below the roots, and nothing else.

A root comes from the option ``[continuous] checkpoint_roots`` or from a connection of type
``continuous``. Whoever asks for a checkpoint by its location gets it only if it lies below a root,
after dots and symbolic links are resolved.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_continuous.connections.location import CheckpointLocation
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointError, ConfigError


class NotBelowRootsError(ConfigError):
    """The location is below none of the roots, and no task has told of it."""

    def __init__(self) -> None:
        super().__init__(
            "There is no such checkpoint that a task has started, or below the configured roots.",
            hint="Roots are the option checkpoint_roots in the section [continuous], and the "
            "checkpoint root of each connection of type continuous.",
        )


@dataclass(frozen=True)
class Root:
    """A folder of checkpoints.

    :param location: as configured; ``s3://my_conn@bucket/path`` names a connection.
    """

    location: str

    def holds(self, location: str) -> bool:
        """Tell whether a location is this root or lies below it."""
        try:
            inner, outer = resolved(location), resolved(self.location)
        except ConfigError:
            return False
        path, top = inner[1].rstrip("/") + "/", outer[1].rstrip("/") + "/"
        return inner[0] == outer[0] and path.startswith(top)


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


def resolved(location: str) -> Place:
    """Return where a location is, however it is written.

    :raises ConfigError: it is no location, or climbs out of an object store's folder.
    """
    parsed = CheckpointLocation.parse(location)
    parts = urlsplit(parsed.url)
    if parts.scheme in ("", "file", "local"):
        # The path that would be opened, whatever is encoded in it.
        return (None, "file", ""), os.path.realpath(open_storage(parsed.url).url)
    if ".." in parts.path.split("/"):
        raise ConfigError(f"The location {location!r} has dots in its path.")
    return (parsed.conn_id, parts.scheme, parts.netloc), posixpath.normpath(
        f"/{parts.path.lstrip('/')}"
    )
