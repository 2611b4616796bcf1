"""Takes epochs of a files sink back, through the log of its folder.

Entries behind the epoch are moved to ``_spark_metadata/rewound/<epoch>-<digest>``, newest first, so
a reader sees whole epochs all the time. The data files stay where they are: without a line in the
log they do not exist for a reader.

The log forgets where an epoch ended once that part of it is compacted and the single entries are
deleted. A pin remembers: its position is the last line of all up to that epoch. The log is then
rebuilt as one compacted entry with everything up to that line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from engine.base.json_text import JSON
from engine.checkpoint.logs.compaction import COMPACT, entries_until, entry_name
from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.sinks.files.file_sink_log import FOLDER, HEADER, FileSinkLog, epoch_of
from engine.sinks.files.places import recorded_place

_ASIDE: Final = "rewound"
_STAGED: Final = f"{_ASIDE}/rebuilt"


class FileSinkRewind:
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, log: FileSinkLog) -> None:
        self._log = log
        self._storage = log.storage

    def bind(self, context: SinkContext) -> None:
        """Shut out the runs that are taken back, and whoever has begun to do so before."""
        self._log.take(context.query_id, context.generation)

    def rewindPosition(self, epoch: int) -> JSON:
        """What a pin keeps: ``{"last": <line or null>}``.

        :raises SinkError: an entry of the log is missing.
        :raises ConfigError: the folder does not have the epoch.
        """
        newest = self._log.latest()
        if newest is None or newest < epoch:
            raise self._no_log(epoch)
        files = self._log.files(up_to=epoch)
        return {"last": files[-1].line() if files else None}

    def hasBatch(self, batch: int) -> bool:
        """Whether the log has come to it: Spark's sink notes each batch there."""
        newest = self._log.latest()
        return newest is not None and newest >= batch

    def checkRewind(self, epoch: int, position: JSON = None) -> None:
        """:raises ConfigError: there is no log, or it does not tell any more which files the epoch
        ended with."""
        if self._storage.exists(_STAGED):
            return
        if self._log.latest() is None:
            raise self._no_log(epoch)
        if not self._is_whole(epoch):
            self._lines_up_to(epoch, position)

    def rewind(self, epoch: int, position: JSON = None) -> None:
        """Make everything behind ``epoch`` invisible. May be called again after a crash.

        :raises ConfigError: as :meth:`checkRewind`.
        :raises CheckpointError: the log cannot be written.
        """
        self._take_back(epoch, position)
        # What is gone stays so: the checkpoint will say that the rewind is over.
        for folder in ("", _ASIDE):
            self._storage.sync(folder)

    def _take_back(self, epoch: int, position: JSON) -> None:
        staged = self._storage.exists(_STAGED)
        if not staged and self._is_whole(epoch):
            self._move_aside(above=epoch)
            return
        if not staged:
            lines = self._lines_up_to(epoch, position)
            self._storage.create(_STAGED, "\n".join([HEADER, *lines]).encode())
        # The only compaction there is: readers derive from it an interval that fits.
        rebuilt = f"{epoch}{COMPACT}"
        if not self._storage.exists(rebuilt):
            self._move_aside(above=-1)
            self._storage.create(rebuilt, self._storage.read(_STAGED))
        self._storage.delete(_STAGED)

    def _is_whole(self, epoch: int) -> bool:
        """Whether what is left without the later entries is a log that can be read."""
        listing = self._log.listing()
        if all(each <= epoch for each in listing):
            return True  # nothing to take back
        left = {each: name for each, name in listing.items() if each <= epoch}
        interval = self._log.interval(left)
        return all(
            left.get(each) == entry_name(each, interval) for each in entries_until(epoch, interval)
        )

    def _lines_up_to(self, epoch: int, position: JSON) -> list[str]:
        listing = self._log.listing()
        later = sorted(
            each for each, name in listing.items() if each > epoch and name.endswith(COMPACT)
        )
        if position is not None and position["last"] is None:
            return []
        if position is not None and later:
            lines = self._log.lines(listing, later[0])
            if position["last"] in lines:
                return lines[: lines.index(position["last"]) + 1]
        needed = self._log.entries_up_to(listing, epoch)
        if all(each in listing for each in needed):
            # The interval has grown since: what is left is none that a reader would understand.
            return [line for each in needed for line in self._log.lines(listing, each)]
        if later and listing.get(needed[0], "").endswith(COMPACT):
            lines = self._log.lines(listing, needed[0])
            if lines == self._log.lines(listing, later[0]):
                return lines  # the log left the epochs between them out
        possible = [each for each in sorted(listing) if self._is_whole(each)]
        raise ConfigError(
            f"The sink's log in {self._storage.url} has been compacted since epoch {epoch}: it "
            "does not tell any more which files that epoch ended with.",
            hint=f"Rewind to one of the epochs {possible[0]} to {possible[-1]}, or to a pin."
            if possible
            else "Its entries are missing: restore them.",
            epoch=epoch,
        )

    def _no_log(self, epoch: int) -> ConfigError:
        return ConfigError(
            f"The sink's log in {self._storage.url} does not have epoch {epoch}.",
            hint="Is this the folder of the query's sink?",
            epoch=epoch,
        )

    def _move_aside(self, *, above: int) -> None:
        numbered = ((epoch_of(file.name), file.name) for file in self._storage.list(""))
        later = [(epoch, name) for epoch, name in numbered if epoch is not None and epoch > above]
        for epoch, name in sorted(later, reverse=True):
            digest = hashlib.sha256(self._storage.read(name)).hexdigest()[:12]
            self._storage.move(name, f"{_ASIDE}/{epoch}-{digest}")


def reopen(options: Mapping[str, str]) -> FileSinkRewind | None:
    """The sink of these options; None if they name no folder.

    :raises ConfigError: the path is not one of this machine.
    """
    place = recorded_place(options)
    return None if place is None else FileSinkRewind(FileSinkLog(place.log(FOLDER)))
