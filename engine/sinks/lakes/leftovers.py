"""Removes the files that a run has written for epochs which it never committed.

Nothing else goes: a file that is no part of the table now may be one that a compaction, a deletion
or a rewind has replaced, which readers of earlier versions need until somebody removes it for all.
What was never committed is told by its name:

- it is of this query and timeline, and of an earlier run;
- its epoch comes behind all that the table had when that run's prepared epochs were committed.

A run that sleeps in the middle of a commit must not name such a file when it wakes up: it is shut
out first.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from engine.checkpoint.sink_context import SinkContext
from engine.errors import StaleRunError
from engine.sinks.lakes.origins import origin_of, query_part
from engine.sinks.lakes.table_log import TableLog

logger: Final = logging.getLogger(__name__)


def remove_leftovers(
    log: TableLog[Any, Any, Any, Any], context: SinkContext, committed: int | None
) -> None:
    """See the module.

    :param committed: the newest epoch in the table when nothing prepared was left.
    :raises SinkUnavailableError: the table cannot be read or written.
    """
    query, newest = query_part(context.query_id), -1 if committed is None else committed

    def is_left(path: str) -> bool:
        origin = origin_of(path)
        return (
            origin is not None
            and (origin.query, origin.timeline) == (query, context.timeline)
            and origin.generation < context.generation
            and origin.epoch > newest
        )

    found = log.strays(is_left)
    if not found:
        return
    try:
        log.fence(context)
    except StaleRunError:  # a later run does this by itself
        return
    for path in found:
        log.remove_file(path)
    logger.info("removed %d files that earlier runs have left in %s", len(found), log.where)
