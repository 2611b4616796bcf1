"""What a dead letter looks like: of the task that writes it, and of the sink that keeps it."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("partition", pa.int32()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("offset", pa.string()),
        pa.field("record", pa.string()),
        pa.field("error", pa.string(), nullable=False),
        pa.field("operator", pa.string()),
        pa.field("watermark", pa.string()),
    ]
)
"""``offset`` is JSON, cut if it is long (:func:`engine.base.json_text.excerpt`): the record stands
before this position of its partition. ``record`` is what the source holds if it cannot be parsed,
otherwise the parsed record as JSON.

A row that was late has ``operator``, the step with state that left it out, and ``watermark``, the
one that it was behind; it is as that step gets it."""
