"""The newest dead letters of a query, as far as they are those of its checkpoint.

The report that tells where they are can be written by whoever may write the checkpoint: so what it
names is read only in the checkpoint's own folders, unless who asks may read everything anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider_continuous.view.roots import lies_below, resolved
from engine.errors import ConfigError
from engine.sinks.newest_letters import newest_letters

SUFFIX: Final = ".letters"
"""Of the folder beside a checkpoint that counts as its own."""


def letters_of(
    location: str, report: Mapping[str, Any], *, anywhere: bool
) -> dict[str, Any] | None:
    """Return ``{path, letters, error}``, the newest letter first; None: the query keeps none.

    :param location: of its checkpoint.
    :param report: the last progress report.
    :param anywhere: wherever they are; else in the checkpoint's own folders only.
    """

    def check(path: str) -> None:
        if not anywhere and not _is_own(location, path):
            raise ConfigError(
                "They lie outside of the checkpoint: shown to who may edit all DAGs, for whoever "
                "writes the checkpoint could name those of others.",
                hint="A deadLetterPath in the checkpoint's folder, or beside it and named as it is "
                f"with {SUFFIX} behind, is shown to all who may read the query's log.",
            )

    return newest_letters(report, check=check)


def _is_own(location: str, path: str) -> bool:
    """Behind links: of a folder, and of each file in it."""
    try:
        place, (store, folder) = resolved(path), resolved(location)
    except ConfigError:
        return False
    folder = folder.rstrip("/")
    return any(lies_below(place, (store, own)) for own in (folder, f"{folder}{SUFFIX}"))
