"""Stages of the user's own state without Spark: the code pickled as PySpark pickles it, the rows of
snapshots kept as files would keep them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils

from engine.exchange.key_groups import KeyGroups
from engine.expressions.types import schema_from_spark
from engine.functions.custom_state.declared import declared
from engine.functions.custom_state.group_states import start_group_function
from engine.functions.custom_state.processors import start_processor
from engine.functions.custom_state.spec import GroupFunction, InitialState, Processor
from engine.functions.pyspark_worker import unpickled
from engine.pipeline.pipeline import FunctionSession, PythonFunction
from engine.pipeline.stateful import RunCustomState
from engine.state.contract import EventClock, StatefulStage
from tests.gathered import changes_of

GROUPS = 16
SESSION = FunctionSession({"spark.sql.session.timeZone": "UTC"})
_TYPES: Mapping[str, T.DataType] = {
    "string": T.StringType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "binary": T.BinaryType(),
    "timestamp": T.TimestampType(),
    "date": T.DateType(),
}


def struct(ddl: str) -> T.StructType:
    """Of simple types: there is no JVM here that could parse others."""
    pairs = (part.split() for part in ddl.split(","))
    return T.StructType([T.StructField(name, _TYPES[kind]) for name, kind in pairs])


def arrow(ddl: str) -> pa.Schema:
    return schema_from_spark(struct(ddl).jsonValue())


def pickled(name: str, call: Any, returned: str) -> PythonFunction:
    serializer: Any = CloudPickleSerializer()
    return PythonFunction(
        name,
        (serializer.dumps((call, struct(returned))),),
        (),
        (),
        pa.struct(list(arrow(returned))),
    )


def groups_of(columns: Sequence[pa.Array], rows: int) -> Any:
    keys = zip(*(column.to_pylist() for column in columns), strict=True)
    return np.array([crc32(repr(key).encode()) % GROUPS for key in keys], np.uint16)


def processor_step(
    processor: Any,
    columns: str,
    returned: str,
    *,
    keys: Sequence[int] = (0,),
    in_pandas: bool = False,
    time_mode: str = "None",
    initial: pa.Table | None = None,
    session: FunctionSession = SESSION,
    event_time: int | None = None,
    **more: Any,
) -> RunCustomState:
    """The rows are those of ``columns``; the user gets all of them."""
    utils = TransformWithStateInPandasUdfUtils(processor, time_mode)
    method = (
        utils.transformWithStateUDF if initial is None else utils.transformWithStateWithInitStateUDF
    )
    function = pickled(type(processor).__name__, method, returned)
    found = declared(unpickled(function)[0], lambda ddl: str(struct(ddl).json()))
    schema = arrow(columns)
    state = None
    if initial is not None:
        state = InitialState(initial, tuple(range(len(keys))), tuple(range(len(initial.schema))))
    spec = Processor(
        function=function,
        session=session,
        arguments=tuple(range(len(schema))),
        in_pandas=in_pandas,
        time_mode=found.time_mode,
        variables=tuple(found.variables),
        deleted=frozenset(found.deleted),
        types=found.types,
        initial=state,
        **more,
    )
    late_by = event_time if time_mode == "EventTime" else None
    params = vars(spec)
    return RunCustomState(
        "custom", tuple(keys), schema, arrow(returned), start_processor, "update", params, late_by
    )


def group_step(
    function: Callable[..., Any],
    columns: str,
    returned: str,
    state: str,
    *,
    keys: Sequence[int] = (0,),
    timeout: str = "NoTimeout",
    event_time: int | None = None,
    session: FunctionSession = SESSION,
) -> RunCustomState:
    """As :func:`processor_step`, for ``applyInPandasWithState``."""
    schema = arrow(columns)
    spec = GroupFunction(
        function=pickled(function.__name__, function, returned),
        session=session,
        arguments=tuple(range(len(schema))),
        state=str(struct(state).json()),
        timeout=timeout,
        has_watermark=event_time is not None,
    )
    late_by = event_time if timeout == "EventTimeTimeout" else None
    params = vars(spec)
    return RunCustomState(
        "custom",
        tuple(keys),
        schema,
        arrow(returned),
        start_group_function,
        "update",
        params,
        late_by,
    )


@dataclass
class Task:
    """One task of the step, from its first epoch to its end.

    :param owned: its key groups; rows of others must not be sent to it.
    :ivar state: what its snapshots hold: for each table the newest row of each key.
    """

    step: RunCustomState
    owned: range = range(GROUPS)
    clock: EventClock = field(default_factory=EventClock)
    state: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups = KeyGroups(self.owned, groups_of)
        self.stage: StatefulStage = self.step.start(self.step, self.clock, groups)
        if not self.state:
            return  # the query begins
        known = {name: rows for name, rows in self.state.items() if name not in self.stage.dropped}
        given = {name: _as_table(self.stage, name, rows) for name, rows in known.items()}
        for rest in (0, 1):  # in two pieces, which are no neighbours
            piece = {
                name: table.take(pa.array(range(rest, table.num_rows, 2), pa.int64()))
                for name, table in given.items()
            }
            self.stage.restore({name: table for name, table in piece.items() if table.num_rows})

    def epoch(
        self,
        *batches: Sequence[tuple[Any, ...]],
        at_ms: int = 0,
        watermark_ms: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows that come out.

        :param watermark_ms: the one that the epoch brings; None: as before.
        """
        self.clock.opened_ms, self.clock.due_ms = at_ms, None
        self.clock.next_watermark_ms = self.clock.watermark_ms

        def given() -> Iterator[pa.RecordBatch]:
            for rows in batches:
                yield batch_of(self.step.input, rows)
            if watermark_ms is not None:  # which is not known before
                self.clock.next_watermark_ms = watermark_ms

        results = list(self.stage(given()))
        for result in results:
            assert result.schema == self.step.schema
        self.clock.watermark_ms = self.clock.next_watermark_ms
        self._keep(changes_of(self.stage, whole=False))
        return [row for result in results for row in rows_of(result)]

    def restarted(self, *, whole: bool = False, step: RunCustomState | None = None) -> Task:
        """The task of another run, with what snapshots hold.

        :param whole: all of the state is asked for before.
        """
        if whole:
            self.state = {}
            whole_state = changes_of(self.stage, whole=True)
            noted = "$initialState"  # the engine's own, and not counted
            counts = [rows.num_rows for name, rows in whole_state.items() if name != noted]
            assert self.stage.row_count == sum(counts)
            self._keep(whole_state)
        watermark_ms = self.clock.watermark_ms
        clock = EventClock(watermark_ms, watermark_ms)
        return Task(step or self.step, self.owned, clock, self.state)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """Those of a table, as snapshots hold them, without group."""
        found = self.state.get(name, {}).values()
        return sorted(
            (tuple(value for key, value in row.items() if key[0] != "#") for row in found),
            key=repr,
        )

    def _keep(self, changes: Mapping[str, pa.Table]) -> None:
        keys = {table.name: table.keys for table in self.stage.tables}
        for name, table in changes.items():
            assert table.num_rows, "a table without changes is left out"
            kept = self.state.setdefault(name, {})
            for row in table.to_pylist():
                assert row["#group"] in self.owned
                place = json.dumps(list(row.values())[2 : 2 + keys[name]], default=repr)
                if row["#gone"]:
                    kept.pop(place, None)
                else:
                    kept[place] = row


def batch_of(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows as a batch."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a batch."""
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _as_table(stage: StatefulStage, name: str, rows: Mapping[str, dict[str, Any]]) -> pa.Table:
    (table,) = (each for each in stage.tables if each.name == name)
    found = pa.Table.from_pylist(list(rows.values()), schema=table.stored)
    return found.take(pa.array(range(found.num_rows - 1, -1, -1), pa.int64()))  # in any order
