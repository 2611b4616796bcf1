"""``state``: what a query remembers, as of a committed epoch."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engine.base.json_text import plain
from engine.base.shown_values import shown_values
from engine.base.text_tables import count
from engine.commands.result import Result, format_pairs, format_table, format_time
from engine.commands.status import open_checkpoint
from engine.errors import ConfigError
from engine.state.committed_state import committed_state, pieces_of
from engine.state.files import TableHead
from engine.state.merging import IN_FRONT


def state(args: Namespace) -> Result:
    """The tables of each stage, with their first rows."""
    checkpoint = open_checkpoint(args.checkpoint)
    wanted = [_condition(each) for each in args.key or ()]
    found = committed_state(checkpoint, args.epoch)
    shown: list[dict[str, Any]] = []
    for stage in found.stages if args.stage is None else [args.stage]:
        of_stage: dict[TableHead, dict[str, Any]] = {}
        for piece in pieces_of(checkpoint, found, stage):
            for head, table in piece.items():
                if all(_column(table, name) is not None for name, _ in wanted):
                    some = _shown(stage, head, table, wanted, args.rows)
                    of_stage[head] = _joined(of_stage.get(head), some, args.rows)
        shown += of_stage.values()
    if wanted and not shown:
        raise ConfigError(f"No table of the state has all of {', '.join(n for n, _ in wanted)}.")
    watermark_ms = found.watermark_ms or None  # 0: the query has none, or none yet
    told = {"epoch": found.epoch, "watermark_ms": watermark_ms, "tables": shown}
    parts = [
        format_pairs({"epoch": found.epoch, "watermark": format_time(watermark_ms)}),
        *map(_described, shown),
    ]
    return Result(told, "\n\n".join(parts))


def _condition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--key {text} is no condition.", hint="Write it as NAME=VALUE.")
    return name, value


def _shown(
    stage: int, head: TableHead, table: pa.Table, wanted: Sequence[tuple[str, str]], rows: int
) -> dict[str, Any]:
    for name, value in wanted:
        column = _column(table, name)
        assert column is not None, "the table was chosen by it"
        texts = map(_text, shown_values(column))
        table = table.filter(pa.array([text == value for text in texts], pa.bool_()))
    first = table.slice(0, rows).select(range(IN_FRONT, table.num_columns))
    columns = [map(plain, shown_values(column)) for column in first.columns]
    return {
        "stage": stage,
        "operator": head.stage,
        "table": head.name,
        "rows": table.num_rows,
        "keys": head.keys,
        "columns": first.column_names,
        "shown": [list(row) for row in zip(*columns, strict=True)],
    }


def _joined(before: dict[str, Any] | None, more: dict[str, Any], rows_max: int) -> dict[str, Any]:
    """Of the same table."""
    if before is None:
        return more
    shown = [*before["shown"], *more["shown"]][:rows_max]
    return {**more, "rows": before["rows"] + more["rows"], "shown": shown}


def _described(table: dict[str, Any]) -> str:
    where = f"stage {table['stage']}, {table['operator']}, {table['table']}"
    title = f"{where}: {count(table['rows'], 'row')}"
    more = table["rows"] - len(table["shown"])
    lines = [title, format_table(table["columns"], table["shown"])]
    return "\n".join([*lines, f"and {more:,} more"] if more else lines)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """A column, or what is below it: ``window.start``. None: there is none."""
    first, *inner = name.split(".")
    names = table.column_names[IN_FRONT:]
    if first not in names:
        return None
    column = table.column(IN_FRONT + names.index(first))
    for each in inner:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(each) < 0:
            return None
        column = column.flatten()[column.type.get_field_index(each)]
    return column


def _text(value: Any) -> str:
    return "null" if value is None else str(plain(value))
