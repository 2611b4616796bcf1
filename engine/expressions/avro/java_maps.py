"""The order in which a new ``java.util.HashMap`` has its entries.

Source: ``HashMap.tableSizeFor``, ``resize`` of Java; ``String.hashCode``;
``Utf8.hashCode`` of Avro.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

Key = TypeVar("Key", str, bytes)
BUCKETS: Final = 16
"""Where nothing is said of how many entries there will be."""


def in_java_order(
    pairs: Sequence[tuple[Key, Any]], hash_of: Callable[[Key], int], buckets: int
) -> list[tuple[Key, Any]]:
    """The entries, of which no nine have the same bucket.

    :param hash_of: :func:`of_text` or :func:`of_bytes`.
    :param buckets: of the table before they were put; see :func:`buckets_for`.
    """
    while 4 * len(pairs) > 3 * buckets:
        buckets *= 2

    def bucket(pair: tuple[Key, Any]) -> int:
        found = hash_of(pair[0])
        return (found ^ found >> 16) & (buckets - 1)

    return sorted(pairs, key=bucket)


def buckets_for(entries: int) -> int:
    """Of a table that is made for so many."""
    return 1 << max(0, entries - 1).bit_length()


def of_text(text: str) -> int:
    """The hash of a ``String``."""
    octets = text.encode("utf-16-le", "surrogatepass")
    return _hash(0, (octets[at] + (octets[at + 1] << 8) for at in range(0, len(octets), 2)))


def of_bytes(octets: bytes) -> int:
    """The hash of a text as Avro keeps it."""
    return _hash(1, (octet - 256 if octet > 127 else octet for octet in octets))


def _hash(start: int, parts: Iterable[int]) -> int:
    found = start
    for part in parts:
        found = 31 * found + part & 0xFFFFFFFF
    return found
