"""``transformWithState`` and ``transformWithStateInPandas``.

An instance of the user's class lives for one epoch of a task, as it does for one micro-batch of a
partition in Spark: ``init`` is called before its first row or timer, ``close`` at the end; in an
epoch without either there is none. What it has to keep is in its state variables.

Timers of processing time fire when the time at which the epoch was opened has come to them, those
of event time when the watermark has: first for the watermark that the rows saw, for a processor may
register what is past already, then for the one that the epoch brings.

Source: Spark's ``TransformWithStateInPySparkExec``; PySpark's
``TransformWithStateInPandasUdfUtils``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasFuncMode
from pyspark.util import fail_on_stopiteration

from engine.errors import ContinuousError, TransformError
from engine.exchange.key_groups import KeyGroups
from engine.functions.custom_state.client import Client, Handle
from engine.functions.custom_state.frame_results import FrameResults
from engine.functions.custom_state.frames import Frames
from engine.functions.custom_state.initial import TABLE, Applied, owned_rows
from engine.functions.custom_state.kept import Lists, Maps, Values
from engine.functions.custom_state.keys import Keys
from engine.functions.custom_state.layout import GroupsOf, Layout
from engine.functions.custom_state.pandas_conversion import PandasConversion
from engine.functions.custom_state.rows import RowForm, RowResults
from engine.functions.custom_state.spec import (
    EVENT_TIME,
    LIST,
    MAP,
    NO_TIME,
    PROCESSING_TIME,
    Processor,
    StateVariable,
)
from engine.functions.custom_state.stage import RESULTS_AT_ONCE, CustomStateStage
from engine.functions.custom_state.timers import Timers
from engine.functions.custom_state.values import Codec
from engine.functions.invoke import failed, rows_max, zoned
from engine.functions.pyspark_worker import provide_broadcasts, unpickled
from engine.pipeline.stateful import RunCustomState
from engine.state.contract import EventClock

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TIMERS: Final = {PROCESSING_TIME: "$procTimers", EVENT_TIME: "$eventTimers", NO_TIME: "$timers"}
"""What Spark's checkpoints call them."""
_DATA = TransformWithStateInPandasFuncMode.PROCESS_DATA
_TIMER = TransformWithStateInPandasFuncMode.PROCESS_TIMER
_COMPLETE = TransformWithStateInPandasFuncMode.COMPLETE


class Form(Protocol):
    """Rows as the user gets them."""

    def keys(self, columns: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        """The user's form of keys."""

    def groups(
        self, columns: Sequence[pa.Array], starts: npt.NDArray[np.int64]
    ) -> Iterator[Iterator[Any]]:
        """What the user gets of each key."""


def start_processor(step: RunCustomState, clock: EventClock, groups: KeyGroups) -> ProcessorStage:
    """The stage of a step whose ``params`` are a :class:`Processor`; to be called on the
    executor."""
    return ProcessorStage(step, clock, groups)


class ProcessorStage(CustomStateStage):
    """See the module."""

    def __init__(self, step: RunCustomState, clock: EventClock, groups: KeyGroups) -> None:
        spec = Processor.of(step.params)
        super().__init__(step, clock, called=spec.function.name)
        provide_broadcasts(spec.session.broadcasts)
        self.dropped = spec.deleted if spec.initial is not None else spec.deleted | {TABLE.name}
        self._spec = spec
        self._groups = groups
        self._variables = {
            each.name: _variable(each, self._keys, groups.of) for each in spec.variables
        }
        timers = Layout(_TIMERS[spec.time_mode], self._keys, groups.of, sub="timer_ms")
        self._timers = Timers(timers)
        self._applied = Applied(groups.owned)
        rows = [rows for rows, _, _ in self._variables.values()]
        self._rows = [
            *rows,
            *([self._timers] if spec.time_mode != NO_TIME else []),
            *([self._applied] if spec.initial is not None else []),
        ]
        self._convert: PandasConversion | None = None
        self._results: FrameResults | RowResults = RowResults(step.schema)
        if spec.in_pandas:
            self._convert = PandasConversion(spec.function, spec.session, step.schema)
            self._results = FrameResults(self._convert)
        self._form = self._form_of(step.input, step.keys, spec.arguments)
        self._instance: _Instance | None = None

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        super().restore(tables, of_several=of_several)
        self._applied.is_done = True  # or there was none as the query began, and nothing begins now

    def _form_of(self, schema: pa.Schema, keys: Sequence[int], arguments: Sequence[int]) -> Form:
        session = self._spec.session
        given = zoned(pa.schema([schema.field(i) for i in arguments]), session)
        of_key = zoned(pa.schema([schema.field(i) for i in keys]), session)
        if self._convert is None:
            return RowForm(given, of_key)
        most = rows_max(session)
        return Frames(self._convert, given, of_key, of_tuples=True, rows_max=most)

    def _begin(self) -> Iterator[pa.RecordBatch]:
        for rows, _, _ in self._variables.values():
            rows.now_ms = self._clock.opened_ms
        initial = self._spec.initial
        if initial is None or self._applied.is_done:
            return
        self._applied.now()
        form = self._form_of(initial.rows.schema, initial.keys, initial.arguments)
        owned = owned_rows(initial, self._groups)
        if not owned.num_rows:
            return
        grouped = self._keys.group(owned, initial.keys)
        columns = [grouped.rows.column(i) for i in initial.arguments]
        names = form.keys([grouped.rows.column(i).take(grouped.first) for i in initial.keys])
        parts = zip(grouped.keys, names, form.groups(columns, grouped.starts), strict=True)
        instance = self._open()
        for key, name, states in parts:
            self._results.add(instance.call(_DATA, key, name, iter(()), states))
        yield from self._made()

    def _run(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        grouped = self._keys.group(rows, self._step.keys)
        columns = [grouped.rows.column(i) for i in self._spec.arguments]
        names = self._form.keys(
            [grouped.rows.column(i).take(grouped.first) for i in self._step.keys]
        )
        parts = zip(grouped.keys, names, self._form.groups(columns, grouped.starts), strict=True)
        instance = self._open()
        for key, name, group in parts:
            self._results.add(instance.call(_DATA, key, name, group))
        yield from self._made()

    def _end(self) -> Iterator[pa.RecordBatch]:
        clock = self._clock
        if self._spec.time_mode == PROCESSING_TIME:
            yield from self._fire(clock.opened_ms, clock.watermark_ms)
            clock.wake(self._timers.next_ms)
        elif self._spec.time_mode == EVENT_TIME:
            yield from self._fire(clock.watermark_ms, clock.watermark_ms)
            if clock.next_watermark_ms > clock.watermark_ms:
                yield from self._fire(clock.next_watermark_ms, clock.next_watermark_ms)
        instance, self._instance = self._instance, None
        if instance is not None:
            self._results.add(instance.call(_COMPLETE))
        for rows, _, _ in self._variables.values():
            rows.drop_expired()

    def _fire(self, until_ms: int, watermark_ms: int) -> Iterator[pa.RecordBatch]:
        next_ms = self._timers.next_ms
        if next_ms is not None and next_ms <= until_ms:
            instance = self._open()
            instance.client.watermark_ms = watermark_ms
            results = instance.call(_TIMER)
            while some := list(islice(results, RESULTS_AT_ONCE)):
                self._results.add(some)
                yield from self._made()

    def _open(self) -> _Instance:
        if self._instance is None:
            client = Client(self._spec, self._keys, self._variables, self._timers)
            client.now_ms = self._clock.opened_ms
            client.watermark_ms = self._clock.watermark_ms
            self._instance = _Instance(self._spec, client)
        return self._instance

    def _made(self) -> Iterator[pa.RecordBatch]:
        for batch in self._results.made():
            if self._spec.emitted_time is not None:
                _check_emitted(batch.column(self._spec.emitted_time), self._clock.watermark_ms)
            yield batch


class _Instance:
    """One of the user's class."""

    def __init__(self, spec: Processor, client: Client) -> None:
        method, _ = unpickled(spec.function)
        self.client = client
        self._called = spec.function.name
        self._method = fail_on_stopiteration(method)
        method.__self__._stateful_processor.init(Handle(client))
        client.set_handle_state(StatefulProcessorHandleState.INITIALIZED)

    def call(
        self,
        mode: TransformWithStateInPandasFuncMode,
        key: tuple[Any, ...] | None = None,
        name: tuple[Any, ...] | None = None,
        *inputs: Iterator[Any],
    ) -> Iterator[Any]:
        """What the user returns.

        :param name: the user's form of the key.
        :param inputs: the rows, and the initial state.
        :raises TransformError: what the user's code raises, with the key.
        """
        if key is not None:
            self.client.announce(key)
        try:
            yield from self._method(self.client, mode, name, *(inputs or (iter(()),)))
        except ContinuousError:
            raise
        except Exception as error:
            raise failed(self._called, error, self.client.at) from error


def _variable(
    variable: StateVariable, keys: Keys, groups_of: GroupsOf
) -> tuple[Values | Lists | Maps, Codec, Codec | None]:
    value = Codec(variable.value)
    moment = None if variable.ttl_ms is None else "expires_ms"
    if variable.kind == MAP:
        assert variable.key is not None, "a map has keys"
        of_key = Codec(variable.key)
        layout = Layout(
            variable.name,
            keys,
            groups_of,
            sub="map_key",
            sub_keys=Keys(list(of_key.dtype)),
            value=value,
            moment=moment,
        )
        return Maps(layout, variable.ttl_ms), value, of_key
    if variable.kind == LIST:
        layout = Layout(variable.name, keys, groups_of, sub="position", value=value, moment=moment)
        return Lists(layout, variable.ttl_ms), value, None
    layout = Layout(variable.name, keys, groups_of, value=value, moment=moment)
    return Values(layout, variable.ttl_ms), value, None


def _check_emitted(times: pa.Array, watermark_ms: int) -> None:
    """Source: Spark's ``UpdateEventTimeColumnExec``."""
    micros = times.cast(pa.int64())
    late = pc.less_equal(micros, pa.scalar(watermark_ms * 1000, pa.int64()))
    if pc.any(late).as_py():
        found = pc.min(micros).as_py()
        raise TransformError(
            "[EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED] Previous node emitted a row with "
            f"eventTime={found} which is older than current_watermark_value={watermark_ms}. This "
            "can lead to correctness issues in the stateful operators downstream in the execution "
            "pipeline.",
            hint="Return event times that are behind the watermark's.",
        )
