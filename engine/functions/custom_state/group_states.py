"""``applyInPandasWithState``: a function that is called for each key with its rows and its state.

After the rows of an epoch, the function is called for the keys whose timeouts have passed: those
below processing time, or below the watermark that the epoch brings.

PySpark tells the JVM what has become of a state, and the JVM writes

- nothing, if the function has neither updated nor removed it, nor set a timeout: then an earlier
  timeout stays, too;
- else value and timeout as they are now: without a new timeout there is none any more;
- that the key is gone, if it was removed and has no new timeout.

Source: Spark's ``FlatMapGroupsInPandasWithStateExec``; PySpark's
``wrap_grouped_map_pandas_udf_with_state``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.util import fail_on_stopiteration

from engine.errors import ContinuousError
from engine.exchange.key_groups import KeyGroups
from engine.functions.custom_state.frame_results import FrameResults
from engine.functions.custom_state.frames import Frames
from engine.functions.custom_state.kept import KeptRows
from engine.functions.custom_state.keys import Key
from engine.functions.custom_state.layout import Layout
from engine.functions.custom_state.pandas_conversion import PandasConversion
from engine.functions.custom_state.spec import GroupFunction
from engine.functions.custom_state.stage import RESULTS_AT_ONCE, CustomStateStage
from engine.functions.custom_state.values import LATEST_MS, Codec, Kept
from engine.functions.invoke import failed, rows_max, zoned
from engine.functions.pyspark_worker import provide_broadcasts, unpickled
from engine.pipeline.stateful import RunCustomState
from engine.state.contract import EventClock

if TYPE_CHECKING:
    import pandas as pd

_EVENT_TIME: Final = GroupStateTimeout.EventTimeTimeout


def start_group_function(
    step: RunCustomState, clock: EventClock, groups: KeyGroups
) -> GroupStateStage:
    """The stage of a step whose ``params`` are a :class:`GroupFunction`; to be called on the
    executor."""
    return GroupStateStage(step, clock, groups)


class GroupStates(KeptRows):
    """The states of all keys, with their timeouts."""

    def get(self, key: Key) -> Kept | None:
        """None: it has no value."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: Key, value: Kept | None, timeout_ms: int | None) -> None:
        """In place of another."""
        self._put(key, None, (value, timeout_ms))

    def remove(self, key: Key) -> None:
        """Without a state there is nothing to do."""
        self._drop(key)

    def next_ms(self, now_ms: int) -> int | None:
        """The first time behind this one of which a further timeout is before it; None: there is
        none."""
        next_ms = self._entries.next_ms(now_ms)
        return None if next_ms is None else next_ms + 1

    def timed_out(self, now_ms: int) -> Iterator[Key]:
        """Those whose timeout is before a time."""
        return (key for _, key, _ in self._entries.due(now_ms - 1))


class GroupStateStage(CustomStateStage):
    """See the module."""

    def __init__(self, step: RunCustomState, clock: EventClock, groups: KeyGroups) -> None:
        spec = GroupFunction.of(step.params)
        super().__init__(step, clock, called=spec.function.name)
        provide_broadcasts(spec.session.broadcasts)
        self._spec = spec
        self._codec = Codec(spec.state)
        moment = None if spec.timeout == GroupStateTimeout.NoTimeout else "timeout_ms"
        self._states = GroupStates(
            Layout("state", self._keys, groups.of, value=self._codec, moment=moment)
        )
        self._rows = [self._states]
        function, returned = unpickled(spec.function)
        self._call = fail_on_stopiteration(function)
        self._width = len(returned)
        convert = PandasConversion(spec.function, spec.session, step.schema)
        of_key = pa.schema([step.input.field(i) for i in step.keys])
        given = pa.schema([step.input.field(i) for i in spec.arguments])
        self._frames = Frames(
            convert,
            zoned(given, spec.session),
            zoned(of_key, spec.session),
            of_tuples=False,
            rows_max=rows_max(spec.session),
        )
        self._results = FrameResults(convert)

    def _begin(self) -> Iterator[pa.RecordBatch]:
        return iter(())

    def _run(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        grouped = self._keys.group(rows, self._step.keys)
        columns = [grouped.rows.column(i) for i in self._spec.arguments]
        names = self._frames.keys(
            [grouped.rows.column(i).take(grouped.first) for i in self._step.keys]
        )
        groups = self._frames.groups(columns, grouped.starts)
        for key, name, frames in zip(grouped.keys, names, groups, strict=True):
            self._call_for(key, name, frames, self._clock.watermark_ms)
        yield from self._results.made()

    def _end(self) -> Iterator[pa.RecordBatch]:
        clock, timeout = self._clock, self._spec.timeout
        if timeout == GroupStateTimeout.NoTimeout:
            return
        now_ms = clock.next_watermark_ms if timeout == _EVENT_TIME else clock.opened_ms
        timed_out = self._states.timed_out(now_ms)
        while keys := list(islice(timed_out, RESULTS_AT_ONCE)):
            names = self._frames.keys(self._keys.to_arrow(keys))
            for key, name in zip(keys, names, strict=True):
                empty = [self._frames.empty()]
                self._call_for(key, name, empty, clock.next_watermark_ms, has_timed_out=True)
            yield from self._results.made()
        if timeout != _EVENT_TIME:
            # Of a timeout that has passed, and that the function has left, the next epoch tells it
            # again, whenever that is: it would make epochs without end.
            clock.wake(self._states.next_ms(now_ms))

    def _call_for(
        self,
        key: Key,
        name: tuple[Any, ...],
        frames: Iterable[pd.DataFrame],
        watermark_ms: int,
        *,
        has_timed_out: bool = False,
    ) -> None:
        kept = self._states.get(key)
        state = GroupState(
            optionalValue=None if kept is None else self._codec.give(kept),  # type: ignore[arg-type]
            batchProcessingTimeMs=self._clock.opened_ms,
            eventTimeWatermarkMs=watermark_ms,
            timeoutConf=self._spec.timeout,
            hasTimedOut=has_timed_out,
            watermarkPresent=self._spec.has_watermark,
            defined=kept is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._codec.schema,
        )
        try:
            self._results.add(_checked(self._call(name, frames, state), self._width))
        except ContinuousError:
            raise
        except Exception as error:
            at = f"called for the key {self._keys.shown(key)}"
            raise failed(self._called, error, at) from error
        timeout_ms = state._timeout_timestamp
        if timeout_ms == GroupState.NO_TIMESTAMP:
            if state._removed:
                self._states.remove(key)
                return
            if not state._updated:
                return
        value = self._codec.take(state._value) if state.exists else None
        is_set = timeout_ms != GroupState.NO_TIMESTAMP
        if timeout_ms > LATEST_MS:
            raise ValueError(f"A timeout at {timeout_ms} ms is behind the latest that can be kept.")
        self._states.put(key, value, int(timeout_ms) if is_set else None)


def _checked(results: Any, width: int) -> Iterator[pd.DataFrame]:
    """The results, as long as they are what PySpark takes.

    :param width: how many columns they have to have.
    """
    import pandas as pd

    if isinstance(results, pd.DataFrame) or not hasattr(results, "__iter__"):
        expected = "iterable of pandas.DataFrame"
        raise _other_type(expected if isinstance(results, pd.DataFrame) else "iterable", results)
    for frame in results:
        if not isinstance(frame, pd.DataFrame):
            raise _other_type("iterator of pandas.DataFrame", frame, "iterator of ")
        is_nothing = len(frame.columns) == 0 and frame.empty
        if len(frame.columns) != width and not is_nothing:
            raise PySparkRuntimeError(
                errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                messageParameters={"expected": str(width), "actual": str(len(frame.columns))},
            )
        yield frame


def _other_type(expected: str, found: Any, before: str = "") -> PySparkTypeError:
    return PySparkTypeError(
        errorClass="UDF_RETURN_TYPE",
        messageParameters={"expected": expected, "actual": f"{before}{type(found).__name__}"},
    )
