"""The offset of a ``tail`` source: how far each file was read, and which file that was.

::

    {"app.log":4096,"app.log//77":184320,
     "/":{"app.log":"81.5b1ce2a06c0f2a11","app.log//77":"77.5b1ce2a0d41d8cd9.1795174660561"}}

A name maps to the file's next byte. A slash is in no file name, so what has one is ours:

- ``"/"`` tells the files apart: inode number, and the checksums of the first line and of the last
  line before the next byte, 1 KiB of each at most. A third number is when the file was found to be
  gone, in milliseconds since 1970.
- ``name//77`` is a second file of that name: the one before it, gone or not yet seen again.
- ``/e9`` in a name is a byte that is not UTF-8.

An offset without ``"/"``, as earlier versions wrote it, names its files by their names alone.

**How long it gets.** It has the files that are in the folder and were read, and the last
:data:`GONE_MAX` of each partition that are gone, so that who waits for the end of a file still
finds it. A folder that is tidied keeps its offset short.

Needs neither Spark nor Arrow.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import SourceError

GONE_MAX: Final = 100
IDENTITIES: Final = "/"
_SECOND: Final = "//"
_LINE_BYTES: Final = 1024
_IDENTITY: Final = re.compile(r"(\d+)\.([0-9a-f]{16})(?:\.(\d+))?")
_BYTE: Final = re.compile(r"/([89a-f][0-9a-f])")
_SURROGATE: Final = re.compile("[\udc80-\udcff]")


@dataclass
class FilePosition:
    """How far one file was read.

    :param name: as Python has it: a byte that is not UTF-8 is a lone surrogate.
    :param position: the next byte.
    :param inode: None: only its name is known.
    :param digest: of what was read; empty if nothing was.
    :param gone_ms: when it was found to be gone; None: it was there.
    """

    name: str
    position: int = 0
    inode: int | None = None
    digest: str = ""
    gone_ms: int | None = None


def shown_name(name: str) -> str:
    """A file's name as JSON and messages can hold it."""
    return _SURROGATE.sub(lambda found: f"/{ord(found.group()) - 0xDC00:02x}", name)


def file_name(shown: str) -> str:
    """The inverse of :func:`shown_name`."""
    return _BYTE.sub(lambda found: chr(0xDC00 + int(found.group(1), 16)), shown)


def positions_of(offset: Any) -> list[FilePosition]:
    """:raises SourceError: it is no offset of a tail source."""
    identities = offset.get(IDENTITIES, {}) if isinstance(offset, dict) else None
    if isinstance(identities, dict):
        found = [
            _position_of(key, position, identities)
            for key, position in offset.items()
            if key != IDENTITIES
        ]
        if None not in found:
            return [each for each in found if each is not None]
    raise SourceError(
        f"The offset {offset!r} is not one of a tail source.",
        hint='It looks like {"file.json":4096}: the next byte of each file.',
    )


def _position_of(key: str, position: Any, identities: dict[str, Any]) -> FilePosition | None:
    if type(position) is not int or position < 0:
        return None
    name = file_name(key.partition(_SECOND)[0])
    if key not in identities:
        return FilePosition(name, position)
    identity = _IDENTITY.fullmatch(str(identities[key]))
    if identity is None:
        return None
    inode, digest, gone_ms = identity.groups()
    return FilePosition(name, position, int(inode), digest, int(gone_ms) if gone_ms else None)


def offset_of(files: Iterable[FilePosition]) -> dict[str, Any]:
    """The inverse of :func:`positions_of`; files of which nothing was read are left out."""
    offset: dict[str, Any] = {}
    identities: dict[str, str] = {}
    # Of two files of one name, the one that is there has it.
    for each in sorted(files, key=lambda each: (each.name, each.gone_ms or 0, each.inode or 0)):
        if each.inode is not None and not each.position:
            continue
        key = shown_name(each.name)
        if key in offset:
            key = f"{key}{_SECOND}{each.inode}"
        offset[key] = each.position
        if each.inode is not None:
            gone = "" if each.gone_ms is None else f".{each.gone_ms}"
            identities[key] = f"{each.inode}.{each.digest}{gone}"
    return {**offset, IDENTITIES: identities} if identities else offset


def partition_of(inode: int, partitions: int) -> int:
    """Which partition reads a file: stable, whatever its name becomes."""
    return zlib.crc32(str(inode).encode()) % partitions


# -- what a file is known by ----------------------------------------------------------------------


def digest_of(block: bytes, before: str) -> str:
    """The digest behind a block of whole lines.

    :param before: the digest at the block's begin; empty if it is that of the file.
    """
    first = before[:8] or _checksum(block[:_LINE_BYTES].partition(b"\n")[0])
    return first + _checksum(_last_line(block[-_LINE_BYTES:]))


def digest_at(read: Callable[[int, int], bytes], position: int) -> str:
    """The digest of a file that was read up to a position.

    :param read: returns so many bytes (second) from a position (first) on, fewer at the end.
    """
    begin = max(0, position - _LINE_BYTES)
    first = _checksum(read(0, min(position, _LINE_BYTES)).partition(b"\n")[0])
    return first + _checksum(_last_line(read(begin, position - begin)))


def _last_line(block: bytes) -> bytes:
    return block[block.rfind(b"\n", 0, -1) + 1 :]


def _checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def matching(wanted: FilePosition, among: Sequence[FilePosition]) -> FilePosition | None:
    """The same file in another offset: of the same inode, the same name first, and then what is
    gone as well, or there as well; by its name if one of the two is known by its name alone."""
    if wanted.inode is not None:
        same = [each for each in among if each.inode == wanted.inode]
        is_gone = wanted.gone_ms is not None
        same.sort(
            key=lambda each: (
                each.name == wanted.name,
                (each.gone_ms is not None) == is_gone,
                each.position,
            )
        )
        if same:
            return same[-1]
    by_name = (
        each
        for each in among
        if each.name == wanted.name
        and (each.inode is None or wanted.inode is None)
        and (each.gone_ms is None or wanted.inode is None)
    )
    return min(by_name, key=lambda each: each.gone_ms or 0, default=None)
