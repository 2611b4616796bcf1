"""What a user may write for a place: a path, or a URL."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from engine.errors import ConfigError


def split_url(location: str, named: str) -> SplitResult:
    """The parts of a path or URL.

    :param named: what it is, for the error.
    :raises ConfigError: it is neither.
    """
    try:
        os.fsencode(location)
        if "\0" in location:
            raise ValueError("there is a NUL in it")
        return urlsplit(location)
    except ValueError as exc:
        raise ConfigError(
            f"{named} {location!r} is no path and no URL: {exc}.", hint="Give a folder or a URL."
        ) from None


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
