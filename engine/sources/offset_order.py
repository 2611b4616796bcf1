"""The order of a source's offsets: whether one is behind another, and how far.

Offsets are JSON that only their source understands; these shapes are known:

=========================================  ===================================================
source                                     offset
=========================================  ===================================================
tail                                       ``{"file.json":4096}``, with or without identities,
                                           see :mod:`engine.sources.tail.tail_offset`
Kafka                                      ``{"topic":{"0":5}}``
PostgreSQL                                 ``{"lsn":23934792}``, bytes of its log
rate                                       ``{"0":{"value":22,"runTimeMs":1795174660561}}``
rate in micro-batches, socket              ``7``
Spark's files                              ``{"logOffset":3}``
=========================================  ===================================================

Everything else is refused: guessing an order would tell that records are in when they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.errors import ConfigError, SourceError
from engine.sources.tail.tail_offset import IDENTITIES, matching, positions_of


def reached(committed: Any, wanted: Any) -> bool:
    """Tell whether everything before ``wanted`` also comes before ``committed``.

    :param committed: where the source's committed records end; None: there are none yet.
    :param wanted: the same kind of offset, of some or all of the partitions. A partition that
        ``committed`` does not have is not reached. A file that was renamed is the same file.
    :raises ConfigError: the two have no order that is known.
    """
    return all(got is not None and got >= want for got, want in _pairs(committed, wanted))


def distance(committed: Any, head: Any) -> int:
    """How much lies between two offsets, over all partitions of ``head``: bytes of a ``tail``
    source, records of others.

    :raises ConfigError: the two have no order that is known.
    """
    return sum(max(0, want - (got or 0)) for got, want in _pairs(committed, head))


def lag_of(committed: Any, head: Any) -> Any:
    """As :func:`distance`, of each partition of ``head`` by itself: in the shape of the offset.

    :raises ConfigError: the two have no order that is known.
    """
    if isinstance(head, dict) and not _is_rate(head) and not _has_identities(head):
        there = committed if isinstance(committed, dict) else {}
        return {name: lag_of(there.get(name), each) for name, each in head.items()}
    return distance(committed, head)


def check_order(wanted: Any) -> None:
    """:raises ConfigError: it is no offset of a kind that has a known order."""
    for _ in _pairs(None, wanted):
        pass


def _pairs(committed: Any, wanted: Any, path: str = "") -> Iterator[tuple[int | None, int]]:
    """The positions of each partition, (committed, wanted)."""
    if _has_identities(wanted) or (_has_identities(committed) and isinstance(wanted, dict)):
        yield from _file_pairs(committed, wanted)
        return
    if _is_rate(wanted):
        wanted = wanted["value"]
        committed = committed["value"] if _is_rate(committed) else committed
    elif _is_position(wanted) and wanted < 0:
        raise ConfigError(
            f"The offset{path} is {wanted}.",
            hint="Spark's -1 and -2 stand for latest and earliest. Give positions, from 0.",
        )
    if _is_position(wanted) and (committed is None or _is_position(committed)):
        yield committed, wanted
    elif isinstance(wanted, dict) and wanted and (committed is None or isinstance(committed, dict)):
        for name, position in wanted.items():
            yield from _pairs((committed or {}).get(name), position, f"{path} of {name}")
    elif wanted != {}:
        raise ConfigError(
            f"Nothing tells whether {committed!r} is behind {wanted!r}{path}.",
            hint='Give an offset as the checkpoint has it, such as {"file.json":4096} or '
            '{"topic":{"0":5}}: whole numbers by partition.',
        )


def _file_pairs(committed: Any, wanted: Any) -> Iterator[tuple[int | None, int]]:
    try:
        files, read = positions_of(wanted), positions_of(committed or {})
    except SourceError as exc:
        raise ConfigError(exc.message, hint=exc.hint) from exc
    for file in files:
        found = matching(file, read)
        yield None if found is None else found.position, file.position


def _has_identities(value: Any) -> bool:
    return isinstance(value, dict) and IDENTITIES in value


def _is_position(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_rate(value: Any) -> bool:
    return isinstance(value, dict) and "value" in value and value.keys() <= {"value", "runTimeMs"}
