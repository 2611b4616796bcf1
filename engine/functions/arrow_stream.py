"""Batches as the file that PySpark's serializers read: an Arrow stream that is written while it is
read, so that a batch is asked for no sooner than the reader wants it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa


class BatchesAsFile(io.RawIOBase):
    """Readable; what it returns is an Arrow IPC stream of the batches."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self._written = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._written, schema)
        self._ahead = bytearray()
        self._ended = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        self._take()
        while not self._ended and (size < 0 or len(self._ahead) < size):
            batch = next(self._batches, None)
            if batch is None:
                self._writer.close()
                self._ended = True
            else:
                self._writer.write_batch(batch)
            self._take()
        taken = bytes(self._ahead if size < 0 else self._ahead[:size])
        del self._ahead[: len(taken)]
        return taken

    def _take(self) -> None:
        self._ahead += self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
