"""One partition by itself, of a source that reads several together."""

from __future__ import annotations

import pyarrow as pa

from engine.sources.contract import Offset, PartitionReader, PartitionsReader


class OnePartition(PartitionReader):
    """:param together: of a single partition."""

    def __init__(self, together: PartitionsReader) -> None:
        self._together = together

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        self._together.on_bad_record = self.on_bad_record
        found = self._together.read(timeout_s)
        return None if found is None else found[1]

    @property
    def offset(self) -> Offset:
        return self._together.offsets[0]

    @property
    def caught_up(self) -> bool | None:
        places = self._together.caught_up
        return None if places is None else 0 in places

    @property
    def has_more(self) -> bool:
        return bool(self._together.having_more((0,)))

    @property
    def exhausted(self) -> bool:
        return self._together.exhausted

    def close(self) -> None:
        self._together.close()
