"""Keeps a table of a lake fit: small files become larger ones, old states of it are forgotten, and
files that nobody can need any more are removed. Queries may write to it meanwhile.

What a restart or a rewind needs stays:

- A file is left as it is that a rewind may have to take out again: one of the last
  ``rewindable_s``, or of an epoch behind a pin. So is the history that tells of them.
- What a query has prepared, and may yet commit, stays however old it is: its name tells; but not
  what no restart can commit any more, because a rewind lies between.
- Files are exchanged only if all are still a part of the table when the others take their place,
  and these are durable by then.
- What others do meanwhile makes a step be tried again, or left to the next time.

A process that dies in the middle has changed nothing, or has done some steps whole. What it has
left goes with the next vacuum.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from engine.base.failpoints import reach
from engine.sinks.lakes.compaction import compact, groups_of
from engine.sinks.lakes.origins import origin_of, query_part
from engine.sinks.lakes.upkeep import MaintenanceReport, Orders, TableFile, Upkeep


def maintain(upkeep: Upkeep[Any, Any], orders: Orders) -> MaintenanceReport:
    """Do what was ordered, one after another. Safe while queries write to the table, and again.

    :raises ConfigError: it cannot be done to this table; nothing has changed.
    :raises SinkError: the table cannot be read or written; what was done before is done whole.
    """
    upkeep.check(orders)
    now_ms = time.time_ns() // 1_000_000
    before = upkeep.files()
    into = compacted = left = 0
    if orders.compact:
        groups = groups_of(
            _not_rewindable(before, orders, now_ms),
            orders.file_bytes or upkeep.file_bytes(),
        )
        done = groups if orders.dry_run else compact(upkeep, groups)
        into, compacted = len(done), sum(map(len, done))
        left = sum(map(len, groups)) - compacted
    expired = upkeep.expire(orders, now_ms) if orders.expire else 0
    reach("maintenance.expired")
    garbage = upkeep.garbage(orders, now_ms) if orders.vacuum else {}
    if not orders.dry_run:
        for path in garbage:
            upkeep.remove(path)
            reach("maintenance.removing")
    after = before if orders.dry_run else upkeep.files()
    return MaintenanceReport(
        table=upkeep.where,
        files_before=len(before),
        bytes_before=sum(each.size for each in before),
        files_after=len(after),
        bytes_after=sum(each.size for each in after),
        compacted_files=compacted,
        compacted_into=into,
        left_files=left,
        expired=expired,
        removed_files=len(garbage),
        removed_bytes=sum(garbage.values()),
        dry_run=orders.dry_run,
    )


def _not_rewindable(
    files: Sequence[TableFile[Any]], orders: Orders, now_ms: int
) -> list[TableFile[Any]]:
    """Without those that a rewind may have to take out of the table."""
    since_ms = now_ms - orders.reach_s * 1000
    pinned = {query_part(query_id): epoch for query_id, epoch in orders.pinned.items()}

    def is_behind_pin(path: str) -> bool:
        origin = origin_of(path)
        return origin is not None and origin.epoch > pinned.get(origin.query, origin.epoch)

    return [each for each in files if each.since_ms <= since_ms and not is_behind_pin(each.path)]
