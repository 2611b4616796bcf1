"""``continuous_state``: the state of a query as a table of Spark's, as of a committed epoch.

=====================  ============  ===============================================================
option                 default
=====================  ============  ===============================================================
path                                 the checkpoint: a path or a URL
epoch                  the last      a committed epoch that retention or a pin has kept
stage                  the only one  the number of the pipeline that keeps the state
operator, table        the only one  which of its tables; an error lists them
checkpointStorage.*                  fsspec's options for the checkpoint, as the query has them
=====================  ============  ===============================================================

Columns are those of Spark's own ``statestore``: ``key`` and ``value`` are structs, and in the place
of the partition there is ``key_group``. A table that has no key, or nothing beside it, lacks that
column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from engine.base.connector_options import Options
from engine.base.nested_settings import pop_settings
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError
from engine.expressions.types import UnsupportedTypeError, schema_to_spark
from engine.query.write_request import STORAGE
from engine.snapshots.handles import SnapshotHandle
from engine.state.committed_state import CommittedState, committed_state, read_state, schemas_of
from engine.state.contract import GROUP
from engine.state.files import TableHead
from engine.state.merging import IN_FRONT

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OWNER = "source continuous_state"


class StateTableSource(DataSource):
    """See the module. All partitions are of one epoch, even if the query goes on."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name: str(value) for name, value in options.items()}
        self._settings = pop_settings(given, STORAGE)
        taken = Options(_OWNER, given)
        self._path = taken.required("path", example="/checkpoints/orders")
        epoch = taken.optional_integer("epoch", minimum=0)
        stage = taken.optional_integer("stage", minimum=0)
        operator, table = taken.text("operator"), taken.text("table")
        taken.refuse_others()
        checkpoint = self._open()
        self._state = committed_state(checkpoint, epoch)
        self._stage, self._head, self._stored = _one_table(
            checkpoint, self._state, stage, operator, table
        )

    @classmethod
    def name(cls) -> str:
        return "continuous_state"

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        try:
            return StructType.fromJson(schema_to_spark(_shown(self._stored, self._head)))
        except UnsupportedTypeError as exc:
            raise ConfigError(f"The table {self._head} cannot be read by Spark: {exc}.") from exc

    def reader(self, schema: StructType) -> StateTableReader:
        return StateTableReader(self._path, self._settings, self._state, self._stage, self._head)

    def _open(self) -> Checkpoint:
        checkpoint = Checkpoint(self._path, self._settings or None)
        if not checkpoint.exists():
            raise ConfigError(f"There is no checkpoint at {checkpoint.url}.")
        return checkpoint


@dataclass
class _Partition(InputPartition):
    """What one task of the query has kept."""

    handle: SnapshotHandle


class StateTableReader(DataSourceReader):
    """See the module."""

    def __init__(
        self,
        path: str,
        settings: Mapping[str, Any],
        state: CommittedState,
        stage: int,
        head: TableHead,
    ) -> None:
        self._path = path
        self._settings = settings
        self._state = state
        self._stage = stage
        self._head = head

    def partitions(self) -> list[InputPartition]:
        return [_Partition(handle) for handle in self._state.of_stage(self._stage)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """:raises ConfigError: retention has removed the epoch meanwhile.
        :raises CheckpointCorruptError: a file is missing, damaged or another one.
        """
        assert isinstance(partition, _Partition)
        checkpoint = Checkpoint(self._path, self._settings or None)
        for piece in read_state(checkpoint, self._state, [partition.handle]):
            for batch in piece[self._head].to_batches() if self._head in piece else ():
                shown = _shown(batch.schema, self._head)
                yield pa.RecordBatch.from_arrays(_columns(batch, self._head), schema=shown)


def _one_table(
    checkpoint: Checkpoint,
    state: CommittedState,
    stage: int | None,
    operator: str | None,
    table: str | None,
) -> tuple[int, TableHead, pa.Schema]:
    """The table that the options name.

    :raises ConfigError: they name none, or several; lists those that there are.
    """
    found = [
        (number, head, schema)
        for number in (state.stages if stage is None else [stage])
        for head, schema in schemas_of(checkpoint, state, number).items()
    ]
    chosen = [
        each
        for each in found
        if operator in (None, each[1].stage) and table in (None, each[1].name)
    ]
    if len(chosen) == 1:
        return chosen[0]
    there = "; ".join(f"stage {n}, operator {h.stage}, table {h.name}" for n, h, _ in found)
    raise ConfigError(
        f"The options stage, operator and table name {len(chosen)} tables of the state.",
        hint=f"There are: {there or 'none: nothing is kept behind that epoch'}.",
    )


def _shown(stored: pa.Schema, head: TableHead) -> pa.Schema:
    """What Spark sees of a table."""
    key, value = _divided(list(stored), head)
    structs = [("key", key), ("value", value)]
    fields = [pa.field(name, pa.struct(inner), False) for name, inner in structs if inner]
    return pa.schema([*fields, pa.field("key_group", pa.int32(), False)])


def _columns(batch: pa.RecordBatch, head: TableHead) -> list[pa.Array]:
    fields, columns = _divided(list(batch.schema), head), _divided(batch.columns, head)
    structs = [
        pa.StructArray.from_arrays(arrays, fields=inner)
        for arrays, inner in zip(columns, fields, strict=True)
        if inner
    ]
    return [*structs, batch.column(GROUP.name).cast(pa.int32())]


def _divided(columns: list[Any], head: TableHead) -> tuple[list[Any], list[Any]]:
    """The key's, and the others."""
    border = IN_FRONT + head.keys
    return columns[IN_FRONT:border], columns[border:]
