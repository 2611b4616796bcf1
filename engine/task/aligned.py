"""The results of iterator functions, put beside the rows that they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from engine.expressions.row_context import Rows
from engine.expressions.times import current_time
from engine.pipeline.pipeline import BatchStream
from engine.task.steps import Arguments


def aligned(arguments: Arguments, function: BatchStream, schema: pa.Schema) -> BatchStream:
    """Append the results of a function whose batches may differ in size from its input's: the n-th
    row of all results belongs to the n-th row of the epoch.

    :param function: makes sure itself that there are as many results as rows.
    :param schema: the input's columns and the results'.
    """

    def stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: deque[tuple[pa.RecordBatch, int]] = deque()

        def given() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                waiting.append((batch, current_time.batch_micros()))
                yield arguments(Rows(batch.num_rows, batch.column))

        for results in function(given()):
            while results.num_rows:
                rows, began = waiting.popleft()
                count = min(rows.num_rows, results.num_rows)
                if count < rows.num_rows:
                    waiting.appendleft((rows.slice(count), began))
                columns = [*rows.slice(0, count).columns, *results.slice(0, count).columns]
                results = results.slice(count)
                current_time.begin_batch(began)  # again: the function may have read further
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return stream
