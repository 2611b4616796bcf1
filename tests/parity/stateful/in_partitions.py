"""Which partition of a stream a row is in, where keys are to stay in theirs: the one that its keys
tell, as a producer would have it who deals records out by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from engine.exchange.partitioning import groups_of_rows
from engine.expressions.logic.ranks import normalized
from engine.pipeline.pipeline import Pipeline, schema_behind
from engine.pipeline.stateful import JoinStreams
from engine.task.transform import compile_steps

PARTITIONS: Final = 4


class InSeveral(Exception):
    """A row has keys of several partitions: of such a query nobody could say that keys stay."""


def partitioned(pipeline: Pipeline, rows: Sequence[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """The rows of each partition, each a batch.

    :param pipeline: its first steps, up to that with state, tell the keys.
    :raises InSeveral: they cannot be dealt out.
    """
    step = pipeline.kept
    assert step is not None
    assert not isinstance(step, JoinStreams)
    before = pipeline.steps[: pipeline.steps.index(step)]
    schema = pipeline.source.schema
    for each in before:
        schema = schema_behind(each, schema)
    keys = [key for key in step.keys if not _is_time(schema.field(key).type)]
    read = compile_steps(replace(pipeline, steps=before, schema=schema))
    placed: list[list[pa.RecordBatch]] = [[] for _ in range(PARTITIONS)]
    for batch in rows:
        for at in range(batch.num_rows):
            row = batch.slice(at, 1)
            found = set[int]()
            for made in read.stream(iter([row])):
                columns = [normalized(made.column(key)) for key in keys]
                found |= {*groups_of_rows(columns, made.num_rows, PARTITIONS).tolist()}
            if len(found) > 1:
                raise InSeveral
            placed[min(found, default=0)].append(row)
    return placed


def _is_time(dtype: pa.DataType) -> bool:
    """Windows, too: a row may be in several."""
    if pa.types.is_struct(dtype):
        return [field.name for field in dtype] == ["start", "end"]
    return bool(pa.types.is_timestamp(dtype))
