"""Where the files of a folder end by now, and whether everything before that is committed.

The order of two offsets tells the latter unless a file has gone the way of all logs meanwhile:

==========================================  =======================================================
what has become of the file                 everything of it is committed when the offset
==========================================  =======================================================
it is gone                                  says so, or has forgotten it
it was truncated or replaced, and a copy    has the copy as far
of the stream has what was in it
the same, and there is no copy              has what is in the file now, as far as that comes
==========================================  =======================================================

Needs neither Spark nor Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from engine.sources.tail.known_files import KnownFiles
from engine.sources.tail.rotation import generations
from engine.sources.tail.tail_offset import FilePosition, digest_at, matching, positions_of
from engine.sources.tail.watched_folder import Folder, OtherFileError, SeenFile, end_of_lines


def latest_offset(folder: Folder, start: Any) -> dict[str, Any]:
    """The offset behind the last whole line of every file.

    :param start: an earlier offset: nothing before it is looked at.
    :raises SourceError: it is none of this source, or the folder cannot be read.
    """
    known = KnownFiles(folder, positions_of(start))
    for file in known.look():
        try:
            with folder.open(file.name, file.inode) as read:
                end = end_of_lines(read, file.position, known.size(file))
                if end > file.position:
                    file.position, file.digest = end, digest_at(read, end)
        except OtherFileError:  # it went in the meantime
            continue
    return known.offset


def has_reached(folder: Folder, committed: Any, wanted: Any) -> bool:
    """Whether everything before ``wanted``, as far as it is still there, comes before
    ``committed``.

    :raises SourceError: one is no offset of this source, or the folder cannot be read.
    """
    ends = _Committed(folder, positions_of(committed))
    return all(ends.has(file) for file in positions_of(wanted))


class _Committed:
    def __init__(self, folder: Folder, files: list[FilePosition]) -> None:
        self._folder = folder
        self._files: dict[int | None, list[FilePosition]] = {}
        for each in files:
            self._files.setdefault(each.inode, []).append(each)

    def has(self, wanted: FilePosition) -> bool:
        found = self._matching(wanted)
        if found is not None and (found.position >= wanted.position or found.gone_ms is not None):
            return True
        if wanted.inode is None:
            return False
        if wanted.gone_ms is not None:
            return True
        seen = self._seen(wanted)
        if seen is None:  # who follows it will say so, unless he has forgotten it by now
            return found is None
        return not self._holds(seen, wanted) and self._has_left(wanted, seen, found)

    def _has_left(self, wanted: FilePosition, seen: SeenFile, found: FilePosition | None) -> bool:
        """Whether its reader knows of the truncation, and has what there is now."""
        if found is not None and not self._holds(seen, found):
            return False
        try:
            with self._folder.open(seen.name, seen.inode) as read:
                end = end_of_lines(read, 0, min(seen.size, wanted.position))
        except OtherFileError:  # it went in the meantime
            return False
        if (0 if found is None else found.position) < end:
            return False
        copies = [each for each in self._everything.values() if self._is_read(each)]
        holders = [each for each in copies if self._holds(each, wanted)]
        entries = [self._matching(FilePosition(each.name, 0, each.inode)) for each in holders]
        return not entries or any(each and each.position >= wanted.position for each in entries)

    def _matching(self, wanted: FilePosition) -> FilePosition | None:
        return matching(wanted, self._files.get(wanted.inode) or self._files.get(None, []))

    def _seen(self, wanted: FilePosition) -> SeenFile | None:
        there = self._folder.file(wanted.name)
        if there is not None and there.inode == wanted.inode:
            return there
        return self._everything.get(wanted.inode or 0)

    @cached_property
    def _everything(self) -> Mapping[int, SeenFile]:
        return {each.inode: each for each in self._folder.files(lambda name: True)}

    def _is_read(self, seen: SeenFile) -> bool:
        accepts = self._folder.accepts
        return (
            seen.inode in self._files
            or accepts(seen.name)
            or any(map(accepts, generations(seen.name)))
        )

    def _holds(self, seen: SeenFile, file: FilePosition) -> bool:
        """Whether what was read of a file is in this one."""
        if seen.size < file.position:
            return False
        try:
            with self._folder.open(seen.name, seen.inode) as read:
                return digest_at(read, file.position) == file.digest
        except OtherFileError:
            return False
