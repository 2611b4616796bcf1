"""From snapshots back to state: all files whose key groups are asked for, whoever wrote them.

Each chain counts in its order, and the last row of a key wins; what is gone leaves, what the
watermark has closed since, and rows of other key groups. A state of more bytes than a piece has is
put together piece by piece: the files stay on the disk, and a piece is let go before the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import CheckpointCorruptError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.state.chains import HINT, Chain, StateFile, read_chains, read_files
from engine.state.contract import KIND, StatefulStage
from engine.state.files import Link, TableHead
from engine.state.merging import IN_FRONT, newest_changes, newest_rows
from engine.state.pieces import piece_bytes
from engine.state.scratch import HERE, Scratch
from engine.state.slices import Slice, bytes_by_group, slices_of

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
    scratch: Scratch = HERE,
) -> Chain | None:
    """Load the state of a task's stages.

    :param handles: all of the task's pipeline in the entry of the epoch that it goes on behind.
    :param groups: the key groups that the task owns now.
    :param watermark_ms: of the epoch that comes next. An epoch that changes nothing else writes
        nothing when the watermark closes rows, so the files alone do not tell.
    :param scratch: for copies of large files that are far away.
    :returns: what the next snapshot goes on behind; None if the groups are not those of one handle,
        or there is a table that nobody wants any more: then it is a whole one, without that table.
    :raises CheckpointCorruptError: a file is missing, damaged or another one.
    :raises CheckpointVersionError: a newer engine has written it.
    :raises ConfigError: the state is not that of these stages.
    """
    dropped = {(stage.name, name) for stage in stages for name in stage.dropped}
    mine = [each for each in handles if _shared(each, groups)]
    chains = read_chains(storage, mine, query_id, scratch)
    is_wanted = True
    for piece in _merged(storage, mine, chains, groups, watermark_ms, piece_bytes(scratch)):
        tables = {h: rows for h, rows in piece.items() if (h.stage, h.name) not in dropped}
        is_wanted = is_wanted and len(tables) == len(piece)
        _check(storage, tables, stages)
        for stage in stages:
            of_stage = {
                head.name: rows for head, rows in tables.items() if head.stage == stage.name
            }
            stage.restore(of_stage, of_several=len(mine) > 1)
    if is_wanted and len(mine) == 1 and range(mine[0].first_group, mine[0].end_group) == groups:
        return Chain(mine[0], tuple(file.link for file in chains[0]))
    return None


def read_pieces(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    groups: range,
    *,
    query_id: str | None,
    watermark_ms: int,
    scratch: Scratch = HERE,
) -> Iterator[dict[TableHead, pa.Table]]:
    """The tables of one pipeline, each with the two columns in front: all of them in each piece,
    every row in one.

    :param handles: see :func:`restore`, which has the errors as well.
    :param groups: those whose rows are asked for.
    :param query_id: None: it is not known.
    """
    mine = [each for each in handles if _shared(each, groups)]
    chains = read_chains(storage, mine, query_id, scratch)
    return _merged(storage, mine, chains, groups, watermark_ms, piece_bytes(scratch))


def read_changes(
    storage: Storage,
    links: Sequence[Link],
    groups: range,
    *,
    query_id: str | None,
    scratch: Scratch = HERE,
) -> Iterator[dict[TableHead, pa.Table]]:
    """What files of changes that follow each other have changed together, as :func:`read_pieces`;
    some of the rows say that their key is gone.

    :param links: of the same key groups, the oldest first; none of a whole snapshot.
    """
    files = read_files(storage, links, query_id, scratch)
    heads = dict.fromkeys(head for file in files for head in file.tables)
    for part in _slices([files], groups, piece_bytes(scratch)):
        yield {head: newest_changes(_parts(files, head, part), head.keys) for head in heads}


def read_tables(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    groups: range,
    *,
    query_id: str | None,
    watermark_ms: int,
) -> dict[TableHead, pa.Table]:
    """As :func:`read_pieces`, of a state that fits the memory."""
    return together(
        read_pieces(storage, handles, groups, query_id=query_id, watermark_ms=watermark_ms)
    )


def together(pieces: Iterable[Mapping[TableHead, pa.Table]]) -> dict[TableHead, pa.Table]:
    """Tables that were in pieces, whole."""
    found: dict[TableHead, list[pa.Table]] = {}
    for piece in pieces:
        for head, rows in piece.items():
            found.setdefault(head, []).append(rows)
    return {head: pa.concat_tables(parts) for head, parts in found.items()}


def _shared(handle: SnapshotHandle, groups: range) -> range:
    return range(max(handle.first_group, groups.start), min(handle.end_group, groups.stop))


def _merged(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    chains: Sequence[Sequence[StateFile]],
    groups: range,
    watermark_ms: int,
    bytes_max: int,
) -> Iterator[dict[TableHead, pa.Table]]:
    if sum(len(_shared(each, groups)) for each in handles) != len(groups):
        there = ", ".join(f"{each.first_group}-{each.end_group - 1}" for each in handles)
        raise CheckpointCorruptError(
            f"The offset log of {storage.url} names the state of the key groups {there or 'none'}, "
            f"and {groups.start}-{groups.stop - 1} are needed.",
            hint="Restore the checkpoint from a copy.",
        )
    for part in _slices(chains, groups, bytes_max):
        parts: dict[TableHead, list[pa.Table]] = {}
        for files in chains:
            newest_ms = max([watermark_ms, *(file.header.watermark_ms for file in files)])
            for head in dict.fromkeys(head for file in files for head in file.tables):
                rows = _open(_newest(files, head, part), head, newest_ms)
                parts.setdefault(head, []).append(rows)
        yield {head: _together(storage, head, found) for head, found in parts.items()}


def _slices(chains: Sequence[Sequence[StateFile]], groups: range, bytes_max: int) -> list[Slice]:
    files = [file for chain in chains for file in chain]
    if sum(file.link.nbytes for file in files) <= bytes_max:
        return [Slice(groups)]
    return slices_of(groups, bytes_by_group(files, groups), bytes_max)


def _newest(files: Sequence[StateFile], head: TableHead, part: Slice) -> pa.Table:
    """The rows that are there at the end of a chain."""
    # What is of the first file's epoch is whole: a table that is not there was empty.
    epoch = files[0].header.epoch
    whole = _parts([file for file in files if file.header.epoch == epoch], head, part)
    changes = _parts([file for file in files if file.header.epoch != epoch], head, part)
    none = (whole or changes)[0].slice(0, 0)
    return newest_rows(pa.concat_tables([none, *whole]), changes, head.keys)


def _parts(files: Sequence[StateFile], head: TableHead, part: Slice) -> list[pa.Table]:
    return [
        part.of(file.tables[head], head.keys, _groups_of(file))
        for file in files
        if head in file.tables
    ]


def _groups_of(file: StateFile) -> range:
    return range(file.header.first_group, file.header.end_group)


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
        elif changed := _of_another_kind(rows.schema, table.stored):
            was, now = (_kind(field).decode() for field in changed)
            difference = (
                f"the column {changed[0].name} of the table {head} has values of kind {was!r} in "
                f"the snapshot, and of kind {now!r} in the query"
            )
        else:
            continue
        raise ConfigError(
            f"The state in {storage.url} is not that of this query: {difference}.",
            hint="Run it with the operators and the columns that it had, or with a new checkpoint.",
        )


def _of_another_kind(there: pa.Schema, wanted: pa.Schema) -> tuple[pa.Field, pa.Field] | None:
    """The first column whose values mean something else, twice; earlier releases do not tell."""
    for pair in zip(there, wanted, strict=True):
        was, now = map(_kind, pair)
        if was and now and was != now:
            return pair
    return None


def _kind(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(KIND, b"")
    return found


def _columns(schema: pa.Schema, head: TableHead) -> str:
    fields = [f"{field.name} {field.type}" for field in list(schema)[IN_FRONT:]]
    keys, others = ", ".join(fields[: head.keys]), ", ".join(fields[head.keys :])
    return f"({keys} | {others})"
