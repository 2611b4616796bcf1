"""Runs Python table functions (``udtf``): rows out of each row, as a list of structs.

An instance of the class lives for one epoch of a task, as it lives for one micro-batch of a
partition in Spark: what ``eval`` keeps in it is seen by the rows that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.types import schema_to_spark, to_spark
from engine.functions.invoke import arguments_schema, blamed, labelled, row_reader, sliced, zoned
from engine.functions.pickled_results import to_column
from engine.functions.pyspark_worker import load_table_function, provide_broadcasts
from engine.pipeline.pipeline import BatchStream, EvalPython

PICKLED: Final = 300
"""``PythonEvalType.SQL_TABLE_UDF``."""
IN_ARROW: Final = 301
"""``PythonEvalType.SQL_ARROW_TABLE_UDF``: values travel as Arrow, rows stay Python's."""


def start_table_function(step: EvalPython) -> BatchStream:
    """From batches of arguments to batches of lists, one for each row; fewer if the function skips
    the rest."""
    (function,) = step.functions
    (column,) = step.schema
    arguments = arguments_schema(step)
    given = zoned(arguments, step.session)
    provide_broadcasts(step.session.broadcasts)
    pickled = step.eval_type == PICKLED
    rows_of = row_reader(given)

    def made(results: Sequence[Any]) -> pa.RecordBatch:
        lists = to_column(results, column.type) if pickled else _lists(results, column.type)
        return pa.RecordBatch.from_arrays([lists], schema=step.schema)

    def stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker = load_table_function(
            step.eval_type,
            function,
            step.session.conf,
            schema_to_spark(arguments),
            to_spark(column.type.value_type),
        )
        sizes: deque[int] = deque()

        def inputs() -> Iterator[Any]:
            for batch in sliced((labelled(each, given) for each in batches), step.session):
                sizes.append(batch.num_rows)
                if pickled:
                    yield from rows_of(batch)
                else:
                    yield batch

        results: list[Any] = []
        for result in worker.call(inputs()):
            results.append(result)
            if len(results) == sizes[0]:  # before the function asks for the next batch
                sizes.popleft()
                yield made(results)
                results = []
        if results:
            yield made(results)

    return lambda batches: blamed(stream(batches), function.name)


def _lists(results: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    """:param results: for each row what was made of it."""
    batches = [_batch(result) for result in results]
    fields = pa.schema(list(dtype.value_type))
    offsets = np.cumsum([0, *(batch.num_rows for batch in batches)])
    rows = labelled(pa.concat_batches(batches), fields)
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(fields))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=dtype)


def _batch(result: Any) -> pa.RecordBatch:
    """Of a batch and its type; since PySpark 4.3, of a batch whose only column has structs."""
    if isinstance(result, pa.RecordBatch):
        return pa.RecordBatch.from_struct_array(result.column(0))
    return result[0]
