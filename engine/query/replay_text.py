"""A replayed epoch as text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from engine.base.json_text import excerpt, plain
from engine.base.shown_values import shown_values
from engine.base.text_tables import count, format_table
from engine.execution.replay import ReplayedEpoch, ReplayedPipeline, Rows
from engine.pipeline.explain import origin
from engine.pipeline.pipeline import (
    EvalPython,
    Generate,
    MapBatches,
    Observe,
    Project,
    StaticJoin,
    Step,
)
from engine.query.row_difference import RowDifference


def describe_epoch(epoch: ReplayedEpoch, rows: int) -> str:
    """Pipeline by pipeline, step by step, with the first rows behind each."""
    parts = [f"Epoch {epoch.epoch}, {_count(epoch.rows_read)} read"]
    for start, end in zip(epoch.starts, epoch.ends, strict=True):
        parts.append(f"from  {excerpt(start)}\nto    {excerpt(end)}")
    for number, pipeline in enumerate(epoch.pipelines):
        parts += _pipeline(number, pipeline, rows)
    parts.append(f"Out: {_count(epoch.went_out.count)}\n{_table(epoch.out, rows)}")
    return "\n\n".join(parts)


def _pipeline(number: int, pipeline: ReplayedPipeline, rows: int) -> Iterator[str]:
    yield f"{origin(number, pipeline.pipeline)}: {_count(pipeline.came_in.count)}" + _left(pipeline)
    yield from (_table(table, rows) for table in pipeline.came_in.tables())
    before = pipeline.came_in.count
    for step, made in zip(pipeline.pipeline.steps, pipeline.made, strict=True):
        yield f"{step_name(step)}: {before:,} → {count(made.count, 'row')}"
        yield from (_table(table, rows) for table in made.tables())
        before = made.count


def _left(pipeline: ReplayedPipeline) -> str:
    bad = f", {count(pipeline.bad_records, 'bad record')}" if pipeline.bad_records else ""
    return bad + (f", {count(pipeline.late_rows, 'late row')}" if pipeline.late_rows else "")


def describe_out(found: RowDifference, rows: int) -> str:
    """What went out of one query and not of the other."""
    if found.is_empty:
        return "None: the same rows went out."
    parts = []
    for whose, names in (("the query", found.columns_before), ("the changed", found.columns_after)):
        if names:
            parts.append(f"Columns only of {whose}: {', '.join(names)}; the others are compared.")
    for whose, table in (("the query", found.only_before), ("the changed", found.only_after)):
        parts.append(f"Only out of {whose}: {_count(table.num_rows)}")
        if table.num_rows:
            parts.append(_table(table, rows))
    return "\n\n".join(parts)


def step_name(step: Step) -> str:
    """What a step is, in a few words."""
    kind = type(step).__name__
    if isinstance(step, Project):
        return f"{kind} {', '.join(step.schema.names)}"
    if isinstance(step, EvalPython):
        return f"{kind} {', '.join(each.name for each in step.functions)}"
    if isinstance(step, MapBatches):
        return f"{kind} {step.function.name}"
    if isinstance(step, Generate):
        return f"{kind} {step.generator}"
    if isinstance(step, StaticJoin):
        return f"{kind} {step.kind}"
    if isinstance(step, Observe):
        return f"{kind} {step.name}"
    name = getattr(step, "name", None)
    return f"{kind} {name}" if name else kind


def epoch_to_dict(epoch: ReplayedEpoch, rows: int) -> dict[str, Any]:
    """As JSON."""
    return {
        "epoch": epoch.epoch,
        "starts": list(epoch.starts),
        "ends": list(epoch.ends),
        "watermark_ms": epoch.watermark_ms,
        "rows_read": epoch.rows_read,
        "pipelines": [
            {
                "origin": origin(number, each.pipeline),
                "came_in": _kept(each.came_in, rows),
                "bad_records": each.bad_records,
                "late_rows": each.late_rows,
                "steps": [
                    {"step": step_name(step), **_kept(made, rows)}
                    for step, made in zip(each.pipeline.steps, each.made, strict=True)
                ],
            }
            for number, each in enumerate(epoch.pipelines)
        ],
        "out": {**describe_rows(epoch.out, rows), "rows": epoch.went_out.count},
    }


def _kept(place: Rows, rows: int) -> dict[str, Any]:
    return {
        "rows": place.count,
        "shown": [describe_rows(table, rows) for table in place.tables()],
    }


def describe_rows(table: pa.Table, rows: int) -> dict[str, Any]:
    """A table as JSON, with its first rows."""
    return {
        "rows": table.num_rows,
        "columns": table.column_names,
        "shown": _first(table, rows),
    }


def _first(table: pa.Table, rows: int) -> list[list[Any]]:
    first = table.slice(0, rows)
    columns = [map(plain, shown_values(column)) for column in first.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _table(table: pa.Table, rows: int) -> str:
    more = table.num_rows - rows
    text = format_table(table.column_names, _first(table, rows))
    return f"{text}\nand {more:,} more" if more > 0 else text


def _count(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)}"
