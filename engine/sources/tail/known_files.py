"""Which file is which, from one look at the folder to the next.

A file is known by its inode number and, where that may deceive, by the checksums of what was read
of it (:mod:`engine.sources.tail.tail_offset`):

=====================================  ============================================================
what a look finds                      what it means
=====================================  ============================================================
a known file under another name        it was rotated: what it has behind its position is still
                                       read, whether or not the new name is one of the stream's
another file under a known name        a new file, from its beginning; so are those that were
                                       rotated in between, see :mod:`engine.sources.tail.rotation`
a known file, shorter or with another  it was truncated (``copytruncate``): from its beginning. A
content before its position            file beside it that is none of the stream's and has the old
                                       content is read from the old position on
the same, and its name is none of the  it is gone, and another file, perhaps the next copy, was
stream's                               written in its place
a known file, shorter, but as it was   it was cut: what was seen and not read yet is lost, and the
before its position                    log says so
no such file any more                  it is done with; an error if lines were seen that were not
                                       read yet
=====================================  ============================================================

Inode numbers change if the whole folder was copied: if the first look finds no known file, those
are taken for the same that have the name and the content.

What cannot be told: a rotated file that was compressed or removed before it was read to its end is
lost; if the query did not run meanwhile and no earlier generation is left either, so are those in
between, and the log names the file that is gone. What is written between ``copytruncate``'s copy
and its truncation is lost by its nature. A copy that is of the stream by its name is read as any
new file is. A single line tells no copy from a generation that begins with the same header: it is
read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from engine.base.clock import SystemClock
from engine.errors import OffsetOutOfRangeError
from engine.sources.tail.rotation import Rotations, in_order
from engine.sources.tail.tail_offset import (
    GONE_MAX,
    FilePosition,
    digest_at,
    digest_of,
    offset_of,
)
from engine.sources.tail.watched_folder import Folder, OtherFileError, SeenFile, end_of_lines

logger: Final = logging.getLogger(__name__)


class KnownFiles:
    """The files of some partitions, and how far each was read.

    :param files: of the offset to go on from.
    :param is_mine: whether a file of this inode number, not known yet, is one of them; None: all.
    :param holders: of an earlier look at all files.
    """

    def __init__(
        self,
        folder: Folder,
        files: Iterable[FilePosition],
        is_mine: Callable[[int], bool] | None = None,
        holders: Sequence[SeenFile] = (),
    ) -> None:
        self._folder = folder
        self._accepts = folder.accepts
        self._has_all = is_mine is None
        self._is_mine = is_mine or (lambda inode: True)
        self._living: dict[int, FilePosition] = {}
        self._gone: list[FilePosition] = []
        self._seen: dict[int, SeenFile] = {}  # at the last look
        self._by_name: list[FilePosition] = []  # until the first look
        self._all: dict[int, SeenFile] | None = None  # whatever its name, at this look
        self._unsaid: list[FilePosition] = []  # files that are gone since before the first look
        self._is_first_look = True
        self._handed_over = {each.inode: each for each in holders}
        self._rotations = Rotations(folder.accepts, self._is_mine, holders)
        for each in files:
            if each.inode is None:
                self._by_name.append(each)
            elif each.gone_ms is None:
                self._living[each.inode] = each
            else:
                self._gone.append(each)

    @property
    def holders(self) -> list[SeenFile]:
        """The files by whose names it is seen, at the next look, what was rotated."""
        return self._rotations.holders

    @property
    def offset(self) -> dict[str, Any]:
        """How far all were read."""
        return offset_of(self.files)

    @property
    def files(self) -> list[FilePosition]:
        """All, also those of which nothing was read."""
        return [*self._by_name, *self._living.values(), *self._gone]

    def size(self, file: FilePosition) -> int:
        """Bytes, at the last look."""
        seen = self._seen.get(file.inode or 0)
        return 0 if seen is None else seen.size

    def find(self, wanted: FilePosition) -> FilePosition | None:
        """The file that another offset means."""
        if wanted.inode is not None:
            return self._living.get(wanted.inode)
        return next((each for each in self._living.values() if each.name == wanted.name), None)

    def look(self) -> list[FilePosition]:
        """Look at the folder, and tell which files have bytes that were neither read nor seen: in
        the order of their names, but rotated ones before the file that has their name now.

        :raises SourceUnavailableError: the folder, or a file, cannot be read.
        """
        before, self._seen, self._all = self._seen, {}, None
        accepted = {each.inode: each for each in self._folder.files()}
        if self._is_first_look:
            self._take_in(accepted)
        # The stream's own files last: the copy of one may be where an older copy was.
        for file in sorted(self._living.values(), key=lambda each: self._accepts(each.name)):
            self._place(file, accepted, before)
        self._rotations.look(accepted.values(), self._everything)
        if self._is_first_look and self._has_all:  # another partition may have the copies it sees
            for seen in self._seen.values():
                self._rotations.known(seen)
        missed = [
            seen
            for seen in self._rotations.missed(self._everything)
            if seen.inode not in self._living and not self._is_copy(seen, accepted)
        ]
        for seen in missed:
            logger.info("%s was rotated before it was seen", self._folder.shown(seen.name))
        mine = [seen for inode, seen in accepted.items() if self._is_mine(inode)]
        for seen in [*missed, *mine]:
            if seen.inode not in self._living:
                file = self._returned(seen) or FilePosition(seen.name, 0, seen.inode)
                self._living[seen.inode] = file
                self._seen[seen.inode] = seen
                before.pop(seen.inode, None)
        self._is_first_look, self._handed_over = False, {}
        self._say_gone()
        news = [
            seen
            for inode, seen in self._seen.items()
            if seen.size
            > max(self._living[inode].position, before[inode].size if inode in before else 0)
        ]
        names = {each.name for each in accepted.values()}
        return [self._living[seen.inode] for seen in in_order(news, names)]

    def advance(self, file: FilePosition, block: bytes) -> None:
        """These whole lines were read."""
        file.digest = digest_of(block, file.digest)
        file.position += len(block)

    def changed(self, file: FilePosition) -> None:
        """The file does not have any more what was read of it: it was truncated, and has grown
        beyond that since the last look."""
        if self._accepts(file.name):
            self._truncated(file, None)
        self.forget_sizes()

    def forget_sizes(self) -> None:
        """The next look finds whatever is not read yet, and looks closely at each file."""
        self._seen = {}

    def lost(self, file: FilePosition) -> OffsetOutOfRangeError:
        """The error for a file that is gone with lines that were seen, and not read yet."""
        return OffsetOutOfRangeError(
            f"{self._folder.shown(file.name)} was read up to byte {file.position}, and it is gone "
            "with what followed.",
            hint="Put it back. Remove a file when the offset in the checkpoint has its end.",
        )

    # -- one look ---------------------------------------------------------------------------------

    def _take_in(self, accepted: dict[int, SeenFile]) -> None:
        """The files of an offset that tells no inode numbers, or those of another disk."""
        names = {each.name: each for each in accepted.values()}
        for file in self._by_name:
            seen = names.get(file.name)
            if seen is None:
                self._unsaid.append(file)
                continue
            digest = self._digest(seen, file.position)
            if digest is None:
                self._unsaid.append(file)
                continue
            file.inode, file.digest = seen.inode, digest
            if seen.size < file.position:
                self._truncated(file, None)
            self._living[seen.inode] = file
        self._by_name = []
        if any(self._is_here(each, accepted) for each in self._living.values()):
            return
        for file in list(self._living.values()):
            seen = names.get(file.name)
            if seen is not None and self._is_same(file, seen):
                del self._living[file.inode or 0]
                file.inode = seen.inode
                self._living[seen.inode] = file

    def _truncated(self, file: FilePosition, last: SeenFile | None) -> None:
        """The file does not have any more what was read of it, or seen at the last look."""
        copy = self._copy_of(file)
        self._rotations.truncated(file.name, last, copy)
        rest = f"; what follows is read from {self._folder.shown(copy.name)}" if copy else ""
        logger.warning(
            "%s was read up to byte %d, and was truncated or replaced since: it is read from its "
            "beginning%s",
            self._folder.shown(file.name),
            file.position,
            rest,
        )
        file.position, file.digest = 0, ""

    def _place(
        self, file: FilePosition, accepted: dict[int, SeenFile], before: dict[int, SeenFile]
    ) -> None:
        """Find where a known file is now."""
        inode = file.inode or 0
        seen = accepted.get(inode) or self._elsewhere(file)
        last = before.get(inode)
        is_shorter = seen is not None and last is not None and seen.size < last.size
        was = last or self._handed_over.get(inode)
        if (
            seen is not None
            and was is not None
            and not file.position
            and seen.name == file.name
            and seen.modified_ns != was.modified_ns
        ):  # nothing tells whether it is as it was, but there may be a copy of what it was
            self._rotations.truncated(file.name, was, None)
        if seen is not None and (
            last is None
            or seen.name != file.name
            or is_shorter
            or (
                seen.modified_ns != last.modified_ns
                and (seen.size <= max(file.position, last.size) or not self._accepts(seen.name))
            )
        ):
            # Not the one that was there a moment ago, or not as it was.
            if self._is_same(file, seen) and (file.position or not is_shorter):
                if last is not None and is_shorter:
                    self._say_cut(file, last, seen)
                    before.pop(inode, None)
                if seen.name != file.name:
                    logger.info(
                        "%s is %s now", self._folder.shown(file.name), self._folder.shown(seen.name)
                    )
                file.name = seen.name
            elif seen.name == file.name and self._accepts(seen.name):
                self._truncated(file, last)
                before.pop(inode, None)
            else:
                if self._is_first_look and seen.name == file.name:
                    self._rotations.replaced(seen)
                seen = None  # the number was given to another file, or that was written over
        if seen is None:
            del self._living[inode]
            before.pop(inode, None)
            self._has_gone(file, last)
        else:
            self._seen[inode] = seen

    def _is_here(self, file: FilePosition, accepted: dict[int, SeenFile]) -> bool:
        seen = accepted.get(file.inode or 0) or self._elsewhere(file)
        return seen is not None and self._is_same(file, seen)

    def _elsewhere(self, file: FilePosition) -> SeenFile | None:
        """A known file whose name is none of the stream's, or was not in the listing because it was
        renamed in that moment."""
        if (there := self._folder.file(file.name)) is not None and there.inode == file.inode:
            return there
        return self._everything().get(file.inode or 0)

    def _everything(self) -> Mapping[int, SeenFile]:
        if self._all is None:
            self._all = {each.inode: each for each in self._folder.files(lambda name: True)}
        return self._all

    def _copy_of(self, file: FilePosition) -> SeenFile | None:
        """Where the content of a truncated file is now; it is one of the known files then."""
        if not file.position:
            return None
        others = self._folder.files(lambda name: not self._accepts(name))
        for each in sorted(others, key=lambda each: each.modified_ns, reverse=True):
            if each.inode not in self._living and self._is_same(file, each):
                copy = FilePosition(each.name, file.position, each.inode, file.digest)
                self._living[each.inode] = copy
                self._seen[each.inode] = each
                return each
        return None

    def _is_copy(self, seen: SeenFile, accepted: dict[int, SeenFile]) -> bool:
        """Whether a file is a copy of one that is read already, or of its beginning: nothing is in
        it that is not in the other. Many files may begin with the same line, so that is no proof.
        """
        if not self._has_lines(seen) or (digest := self._digest(seen, seen.size)) is None:
            return False
        for other in {**self._seen, **accepted}.values():
            if other.size >= seen.size and self._digest(other, seen.size) == digest:
                logger.warning(
                    "%s begins as %s does, and is taken for a copy of it: it is not read",
                    self._folder.shown(seen.name),
                    self._folder.shown(other.name),
                )
                return True
        return False

    def _has_lines(self, seen: SeenFile) -> bool:
        """More than one, and whole."""
        try:
            with self._folder.open(seen.name, seen.inode) as read:
                return end_of_lines(read, 0, end_of_lines(read, 0, seen.size) - 1) > 0
        except OtherFileError:
            return False

    def _is_same(self, file: FilePosition, seen: SeenFile) -> bool:
        return seen.size >= file.position and (
            not file.position or self._digest(seen, file.position) in (file.digest, None)
        )

    def _digest(self, seen: SeenFile, position: int) -> str | None:
        """None: it went in the meantime; the next look will tell."""
        try:
            with self._folder.open(seen.name, seen.inode) as read:
                return digest_at(read, position) if position else ""
        except OtherFileError:
            return None

    # -- files that are gone ----------------------------------------------------------------------

    def _has_gone(self, file: FilePosition, last: SeenFile | None) -> None:
        if last is None:
            self._unsaid.append(file)
        elif last.size > file.position:
            logger.warning(
                "%s is gone: the last %d of its %d bytes were not read",
                self._folder.shown(file.name),
                last.size - file.position,
                last.size,
            )
        if file.position:
            file.gone_ms = SystemClock().now_ms()
            self._gone = [*self._gone, file][-GONE_MAX:]

    def _say_cut(self, file: FilePosition, last: SeenFile, seen: SeenFile) -> None:
        logger.warning(
            "%s was cut from %d to %d bytes; %d were read",
            self._folder.shown(file.name),
            last.size,
            seen.size,
            file.position,
        )

    def _say_gone(self) -> None:
        if self._unsaid:
            first, others = self._unsaid[0], len(self._unsaid) - 1
            logger.warning(
                "%s is gone%s. It was read up to byte %d; what followed, if anything did, is lost",
                self._folder.shown(first.name),
                f", and so are {others} others" if others else "",
                first.position,
            )
            self._unsaid = []

    def _returned(self, seen: SeenFile) -> FilePosition | None:
        """A file that was not found, and is there again: it was renamed during the look."""
        for file in self._gone:
            if file.inode == seen.inode and self._is_same(file, seen):
                self._gone.remove(file)
                file.name, file.gone_ms = seen.name, None
                return file
        return None
