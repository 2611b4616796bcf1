"""Record batches made of the columns of rows that have passed the steps of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def as_batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record batch; one without columns has a number of rows all the same."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
