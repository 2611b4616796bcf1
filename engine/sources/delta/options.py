"""What the user has said of a table, and the table itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import SourceUnavailableError
from engine.sinks.delta.places import Place
from engine.sources.delta.versions import OWNER

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class DeltaOptions:
    """What the user has said.

    :param start: a version, or ``latest``; None for the table as it is, and what comes then.
    :param start_ms: or so: the first version of this time or later, since 1970.
    :param is_feed: the changes of rows are read, and not what was added.
    :param skips: versions that delete or change rows are left out, as a whole.
    :param repeats: of versions that change rows, the files that were written again are read.
    :param drops: versions that only delete rows are left out.
    :param files_max: of an epoch; None: no limit.
    :param loses: what is not there any more is left out, and logged.
    """

    place: Place
    storage_options: Mapping[str, str]
    partitions: int
    poll_s: float
    start: int | str | None
    start_ms: int | None
    is_feed: bool
    skips: bool
    repeats: bool
    drops: bool
    files_max: int | None
    loses: bool

    def table(self, version: int | None = None) -> DeltaTable:
        """The table, as it is or as of a version, with the list of all its files.

        :raises SourceUnavailableError: it cannot be read.
        """
        from deltalake import DeltaTable

        try:
            return DeltaTable(
                self.place.url, version=version, storage_options=dict(self.storage_options)
            )
        except Exception as exc:
            told = "" if version is None else f" as of version {version}"
            reason = str(exc).strip().splitlines()[0]
            raise SourceUnavailableError(
                f"{OWNER}: the table {self.place.url}{told} cannot be read: {reason}",
                hint="See that its storage can be reached, and the option path and those that "
                "begin with storage.",
            ) from exc
