"""The metrics that ``df.observe`` has asked for, of one epoch."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.base.json_text import plain
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.whole_columns import caster
from engine.pipeline import aggregates
from engine.pipeline.pipeline import Observe, Pipeline
from engine.wire.messages import EpochCommitMessage


def observed_metrics(
    pipelines: Sequence[Pipeline], reports: Sequence[Sequence[EpochCommitMessage]]
) -> dict[str, dict[str, Any]]:
    """Name of each observation → name of each metric → its value.

    Numbers, truth values and texts are JSON's; ``"NaN"``, ``"Infinity"``, a decimal, so that no
    digit is lost, and all other values are texts as Spark's cast makes them; binary ones in base64.

    :param pipelines: one per stream. An observation behind a union is of all of its streams.
    :param reports: those of the tasks of each.
    :raises TransformError: a metric fails, e.g. for a sum does not fit its type.
    """
    found: dict[str, tuple[Observe, str, list[tuple[Any, ...]]]] = {}
    for pipeline, parts in zip(pipelines, reports, strict=True):
        for step in pipeline.steps:
            if isinstance(step, Observe):
                known = found.setdefault(step.name, (step, pipeline.session_timezone, []))
                known[2].extend(part.counters.observed[step.name] for part in parts)
    return {name: dict(_row(*each)) for name, each in found.items()}


def _row(step: Observe, zone: str, tasks: Sequence[tuple[Any, ...]]) -> Mapping[str, Any]:
    states = list(zip(*tasks, strict=True)) or [()] * len(step.aggregates)
    values = [
        aggregates.value(
            aggregate,
            aggregates.merged(aggregate, each) if each else aggregates.initial(aggregate),
        )
        for aggregate, each in zip(step.aggregates, states, strict=True)
    ]
    names = [str(index) for index in range(len(values))]
    arrays = [pa.repeat(each, 1) for each in values]
    batch = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    if arrays:
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
    context = Context(zone)
    row = {}
    for field, result in zip(step.schema, step.results, strict=True):
        computed = to_array(compile_expression(result, context)(batch), 1, result.dtype)
        row[field.name] = _shown(computed, zone)
    return row


def _shown(array: pa.Array, zone: str) -> Any:
    dtype = array.type
    if not array[0].is_valid:
        return None
    if pa.types.is_binary(dtype):
        return base64.b64encode(array[0].as_py()).decode("ascii")
    if not (
        pa.types.is_integer(dtype)
        or pa.types.is_floating(dtype)
        or pa.types.is_boolean(dtype)
        or pa.types.is_string(dtype)
    ):
        array = caster(dtype, pa.string(), zone)(array)
    return plain(array[0].as_py())
