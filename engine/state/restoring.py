"""From snapshots back to state: all files whose key groups are asked for, whoever wrote them.

Each chain counts in its order, and the last row of a key wins; what is gone leaves, what the
watermark has closed since, and rows of other key groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import CheckpointCorruptError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.state.chains import HINT, Chain, StateFile, read_chains
from engine.state.contract import GROUP, StatefulStage
from engine.state.files import TableHead
from engine.state.merging import IN_FRONT, newest_rows

if TYPE_CHECKING:
    from engine.checkpoint.storage.contract import Storage


def restore(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    groups: range,
    stages: Sequence[StatefulStage],
    *,
    query_id: str,
    watermark_ms: int,
) -> Chain | None:
    """Load the state of a task's stages.

    :param handles: all of the task's pipeline in the entry of the epoch that it goes on behind.
    :param groups: the key groups that the task owns now.
    :param watermark_ms: of the epoch that comes next. An epoch that changes nothing else writes
        nothing when the watermark closes rows, so the files alone do not tell.
    :returns: what the next snapshot goes on behind; None if the groups are not those of one handle:
        then it is a whole one.
    :raises CheckpointCorruptError: a file is missing, damaged or another one.
    :raises CheckpointVersionError: a newer engine has written it.
    :raises ConfigError: the state is not that of these stages.
    """
    mine = [each for each in handles if _shared(each, groups)]
    chains = read_chains(storage, mine, query_id)
    merged = _merged(storage, mine, chains, groups, watermark_ms)
    dropped = {(stage.name, name) for stage in stages for name in stage.dropped}
    tables = {head: rows for head, rows in merged.items() if (head.stage, head.name) not in dropped}
    _check(storage, tables, stages)
    for stage in stages:
        stage.restore(
            {head.name: rows for head, rows in tables.items() if head.stage == stage.name}
        )
    if len(mine) == 1 and range(mine[0].first_group, mine[0].end_group) == groups:
        return Chain(mine[0], tuple(file.link for file in chains[0]))
    return None


def read_tables(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    groups: range,
    *,
    query_id: str | None,
    watermark_ms: int,
) -> dict[TableHead, pa.Table]:
    """The tables of one pipeline, each with the two columns in front.

    :param handles: see :func:`restore`, which has the errors as well.
    :param groups: those whose rows are asked for.
    :param query_id: None: it is not known.
    """
    mine = [each for each in handles if _shared(each, groups)]
    return _merged(storage, mine, read_chains(storage, mine, query_id), groups, watermark_ms)


def _shared(handle: SnapshotHandle, groups: range) -> range:
    return range(max(handle.first_group, groups.start), min(handle.end_group, groups.stop))


def _merged(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    chains: Sequence[Sequence[StateFile]],
    groups: range,
    watermark_ms: int,
) -> dict[TableHead, pa.Table]:
    if sum(len(_shared(each, groups)) for each in handles) != len(groups):
        there = ", ".join(f"{each.first_group}-{each.end_group - 1}" for each in handles)
        raise CheckpointCorruptError(
            f"The offset log of {storage.url} names the state of the key groups {there or 'none'}, "
            f"and {groups.start}-{groups.stop - 1} are needed.",
            hint="Restore the checkpoint from a copy.",
        )
    parts: dict[TableHead, list[pa.Table]] = {}
    for files in chains:
        newest_ms = max([watermark_ms, *(file.header.watermark_ms for file in files)])
        for head in dict.fromkeys(head for file in files for head in file.tables):
            rows = _open(_newest(files, head, groups), head, newest_ms)
            parts.setdefault(head, []).append(rows)
    return {head: _together(storage, head, found) for head, found in parts.items()}


def _newest(files: Sequence[StateFile], head: TableHead, groups: range) -> pa.Table:
    """The rows that are there at the end of a chain."""
    rows = [_of_groups(file, file.tables[head], groups) for file in files if head in file.tables]
    # The first file is whole: a table that it has not was empty.
    whole = rows.pop(0) if head in files[0].tables else rows[0].slice(0, 0)
    return newest_rows(whole, rows, head.keys)


def _of_groups(file: StateFile, rows: pa.Table, groups: range) -> pa.Table:
    if file.header.first_group >= groups.start and file.header.end_group <= groups.stop:
        return rows
    group = rows.column(GROUP.name)
    from_first = pc.greater_equal(group, pa.scalar(groups.start, GROUP.type))
    return rows.filter(pc.and_(from_first, pc.less(group, pa.scalar(groups.stop, GROUP.type))))


def _open(rows: pa.Table, head: TableHead, watermark_ms: int) -> pa.Table:
    """The rows that the watermark has not closed."""
    if head.expires is None:
        return rows
    expires = rows.column(IN_FRONT + head.expires)
    closed = pc.less_equal(expires, pa.scalar(watermark_ms * 1000, pa.int64()))
    if not pc.any(closed).as_py():
        return rows
    return rows.filter(pc.invert(pc.fill_null(closed, False)))


def _together(storage: Storage, head: TableHead, parts: Sequence[pa.Table]) -> pa.Table:
    if any(part.schema != parts[0].schema for part in parts):
        raise CheckpointCorruptError(
            f"The snapshots of {storage.url} do not agree on the columns of {head}.", hint=HINT
        )
    return pa.concat_tables(parts)


def _check(
    storage: Storage, tables: dict[TableHead, pa.Table], stages: Sequence[StatefulStage]
) -> None:
    """:raises ConfigError: the tables are not those of these stages."""
    known = {(stage.name, table.name): table for stage in stages for table in stage.tables}
    for head, rows in tables.items():
        table = known.get((head.stage, head.name))
        if table is None:
            difference = f"the snapshot has the table {head}, which the query has not"
        elif TableHead.of(head.stage, table) != head or rows.schema != table.stored:
            difference = (
                f"the table {head} has the columns {_columns(rows.schema, head)} in the snapshot, "
                f"and {_columns(table.stored, TableHead.of(head.stage, table))} in the query"
            )
        else:
            continue
        raise ConfigError(
            f"The state in {storage.url} is not that of this query: {difference}.",
            hint="Run it with the operators and the columns that it had, or with a new checkpoint.",
        )


def _columns(schema: pa.Schema, head: TableHead) -> str:
    fields = [f"{field.name} {field.type}" for field in list(schema)[IN_FRONT:]]
    keys, others = ", ".join(fields[: head.keys]), ", ".join(fields[head.keys :])
    return f"({keys} | {others})"
