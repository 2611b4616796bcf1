"""Makes larger files of a table's small ones, a batch of them with one commit."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from engine.base.failpoints import reach
from engine.sinks.lakes.upkeep import Swap, TableFile, Upkeep

logger: Final = logging.getLogger(__name__)

SMALL: Final = 0.75
"""A file of so much of the wanted size is large enough."""
BATCH_FILES: Final = 100
BATCH_BYTES: Final = 1 << 30
"""So many files, or bytes, are written before they are committed: a commit costs, and what is not
committed is lost when the process dies."""

Files = Sequence[TableFile[Any]]


def groups_of(files: Files, file_bytes: int) -> list[Files]:
    """Files each of which become one, the oldest first; none alone.

    :param file_bytes: how many a file should have.
    """
    by_group: dict[Hashable, list[TableFile[Any]]] = defaultdict(list)
    for file in sorted(files, key=lambda each: (each.since_ms, each.path)):
        if file.group is not None and file.size < SMALL * file_bytes:
            by_group[file.group].append(file)
    return [
        packed
        for group in by_group.values()
        for packed in _packed(group, file_bytes)
        if len(packed) > 1
    ]


def _packed(files: Files, file_bytes: int) -> Iterator[Files]:
    taken: list[TableFile[Any]] = []
    size = 0
    for file in files:
        if taken and size + file.size > file_bytes:
            yield taken
            taken, size = [], 0
        taken.append(file)
        size += file.size
    if taken:
        yield taken


def compact(upkeep: Upkeep[Any, Any], groups: Sequence[Files]) -> list[Files]:
    """:returns: the groups that have become one file each.
    :raises ContinuousError: the table cannot be read or written."""
    done: list[Files] = []
    for batch in _batches(groups):
        swaps = _rewritten(upkeep, batch)
        reach("compaction.written")
        made = upkeep.swap(swaps) if swaps else []
        done += [swap.old for swap in made]
        for swap in swaps:
            if swap not in made:
                logger.info("%d files of %s have changed meanwhile", len(swap.old), upkeep.where)
                upkeep.discard(swap.new)
    return done


def _batches(groups: Sequence[Files]) -> Iterator[list[Files]]:
    batch: list[Files] = []
    size = 0
    for group in groups:
        batch.append(group)
        size += sum(file.size for file in group)
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _rewritten(upkeep: Upkeep[Any, Any], batch: Sequence[Files]) -> list[Swap[Any, Any]]:
    swaps: list[Swap[Any, Any]] = []
    try:
        for group in batch:
            try:
                swaps.append(Swap(group, upkeep.rewrite(group)))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, FileNotFoundError) as exc:
                logger.warning(
                    "%s: %d files beginning with %s are left as they are: %s",
                    upkeep.where,
                    len(group),
                    group[0].path,
                    exc,
                )
    except BaseException:
        for swap in swaps:
            with suppress(Exception):
                upkeep.discard(swap.new)
        raise
    return swaps
