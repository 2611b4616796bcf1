"""Whose a table's data file is. Its name tells::

    part-<task>-<query id>-t<timeline>-g<generation>-e<epoch>-<uuid>.snappy.parquet

So what a run has left behind is known from what is the table's, and what a rewind has to take back
from what others have written.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, NamedTuple
from urllib.parse import quote

from engine.sinks.contract import WriterContext

# Iceberg may put bits of a hash before it.
_NAME: Final = re.compile(
    r"(?:[01]+-)?part-\d{5,}-(.+)-t(\d+)-g(\d+)-e(\d+)-[0-9a-f-]{36}\.[a-z0-9_.]+"
)


class Origin(NamedTuple):
    """What a file's name tells of who has written it.

    :param query: as :func:`query_part` has it.
    """

    query: str
    timeline: int
    generation: int
    epoch: int


def origin_of(path: str) -> Origin | None:
    """None if it is none of this engine's."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else Origin(found[1], int(found[2]), int(found[3]), int(found[4]))


def may_be_committed(origin: Origin, newest: tuple[int, int] | None) -> bool:
    """Whether a restart may yet commit a file that is no part of the table now.

    Timelines follow each other, and a table that has seen a later one refuses all runs of those
    before: what was prepared in them, and not committed, never will be. In a later one epochs may
    have lower numbers.

    :param newest: the newest timeline in which the table has something of the query, and the epoch
        that it has come to; None: it has nothing.
    """
    return newest is None or (origin.timeline, origin.epoch) > newest


def query_part(query_id: str) -> str:
    """A query's id as a part of a name."""
    return quote(query_id, safe="").replace("%", "_")


def new_name(context: WriterContext, epoch: int, extension: str) -> str:
    """The name of another file that a task writes for an epoch.

    :param extension: with its dots.
    """
    return (
        f"part-{context.task:05d}-{query_part(context.query_id)}-t{context.timeline}"
        f"-g{context.generation}-e{epoch}-{uuid.uuid4()}{extension}"
    )
