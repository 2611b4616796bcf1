"""Local paths out of what a user may write: a path, or a ``file:`` URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.errors import ConfigError


def local_path(location: str, owner: str) -> Path:
    """The absolute path.

    :param owner: who wants to know, for the error.
    :raises ConfigError: the location is not on a local (or mounted) disk.
    """
    parts = urlsplit(location)
    if parts.scheme == "" or len(parts.scheme) == 1:  # a drive letter is no scheme
        return Path(location).absolute()
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise ConfigError(
            f"{owner} cannot use {location}: it works on local or mounted folders.",
            hint="Give a path, or a file:/// URL.",
        )
    return Path(unquote(parts.path)).absolute()
