"""Many checkpoints by one pattern: ``s3://bucket/checkpoints/*``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.rewind import ASIDE
from engine.errors import CheckpointError, ConfigError


def is_pattern(location: str) -> bool:
    """Whether a location stands for all checkpoints that it matches."""
    return "*" in location


def find_checkpoints(pattern: str, storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """The locations of all checkpoints that match, sorted. Folders that no query has used are left
    out; one whose use cannot be told is not.

    :param pattern: a path or URL in which ``*`` stands for any part of one name, and ``**`` for any
        folders; see fsspec's ``glob``.
    :raises ConfigError: fsspec does not know the scheme, or lacks the package for it.
    :raises CheckpointError: the storage cannot be listed.
    """
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(pattern, **(storage_options or {}))
    except (ImportError, ValueError) as exc:
        raise ConfigError(
            f"{pattern} cannot be opened: {exc}.",
            hint="Give a local path, or a URL that fsspec knows; install the package it names.",
        ) from exc
    try:
        fs.invalidate_cache()
        found = fs.glob(path, detail=True)
    except FileNotFoundError:
        return []
    except Exception as exc:
        raise CheckpointError(
            f"Cannot list {pattern}: {type(exc).__name__}: {exc}.",
            hint="Check the storage, its credentials and the network.",
        ) from exc
    local = "file" in ([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
    folders = sorted(
        name
        for name, entry in found.items()
        # What a rewind has moved aside looks like a checkpoint, and stays.
        if entry["type"] == "directory" and name.rstrip("/").split("/")[-2:-1] != [ASIDE]
    )
    locations = [name if local else fs.unstrip_protocol(name) for name in folders]
    return [each for each in locations if _is_used(each, storage_options)]


def _is_used(location: str, storage_options: Mapping[str, Any] | None) -> bool:
    try:
        return Checkpoint(location, storage_options).exists()
    except CheckpointError:
        return True  # whoever opens it meets the error, and says which one it is
