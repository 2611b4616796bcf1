"""Hadoop's checksums of a file ``name``, kept beside it in ``.name.crc``::

    "crc\\0"  512 as a big-endian int  one big-endian CRC-32 for each 512 bytes of the file

Source: Hadoop ChecksumFileSystem; its LocalFileSystem refuses a file that does not fit them.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

_MAGIC: Final = b"crc\0"
_CHUNK: Final = 512


def checksums(data: bytes) -> bytes:
    """The content of the twin of a file that holds ``data``."""
    sums = [zlib.crc32(data[at : at + _CHUNK]) for at in range(0, len(data), _CHUNK)]
    return _MAGIC + struct.pack(f">i{len(sums)}I", _CHUNK, *sums)


def fits(data: bytes, twin: bytes) -> bool:
    """Whether a file that holds ``data`` is what its twin was made for."""
    return twin == checksums(data)
