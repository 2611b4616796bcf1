"""What PySpark's classes around the user's processor call in place of the JVM.

PySpark's ``StatefulProcessorApiClient`` asks the JVM over a socket, an object per micro-batch; this
one has the same methods and answers from the rows in memory. The clients of its state classes would
still write protocol buffers, so :class:`Handle` gives these others to call.

Source: Spark's ``TransformWithStateInPySparkStateServer`` and ``StatefulProcessorHandleImpl``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any

from pyspark.sql.streaming.stateful_processor import (
    ListState,
    MapState,
    StatefulProcessorHandle,
    ValueState,
)
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.types import Row, StructType

from engine.functions.custom_state.complaints import (
    empty_list,
    no_key,
    no_timers,
    other_variable,
    wrong_state,
)
from engine.functions.custom_state.kept import Lists, Maps, Values
from engine.functions.custom_state.keys import Key, Keys
from engine.functions.custom_state.spec import LIST, MAP, NO_TIME, VALUE, Processor
from engine.functions.custom_state.timers import Timers
from engine.functions.custom_state.values import LATEST_MS, Codec, Kept

_State = StatefulProcessorHandleState


class Client:
    """Of one instance of the processor.

    :param keys: of the groups.
    :param variables: by name, those that are declared, with the codecs of their values and of their
        keys, None for what has no keys.
    :ivar now_ms: processing time.
    :ivar watermark_ms: see ``TimerValues``.
    """

    def __init__(
        self,
        spec: Processor,
        keys: Keys,
        variables: Mapping[str, tuple[Values | Lists | Maps, Codec, Codec | None]],
        timers: Timers,
    ) -> None:
        self._spec = spec
        self._keys = keys
        self._declared = {each.name: each for each in spec.variables}
        self._variables = variables
        self._timers = timers
        self._lists: dict[str, Iterator[tuple[int, bool]]] = {}
        self._expired: dict[str, Iterator[tuple[int, Key, bool]]] = {}
        self._next: Key | None = None
        self._key: Key | None = None
        self.handle_state = _State.CREATED
        self.now_ms = -1
        self.watermark_ms = -1

    @property
    def key(self) -> Key:
        """Whose state is seen.

        :raises PySparkRuntimeError: nobody's, in ``init`` and in ``close``.
        """
        if self._key is None:
            raise no_key()
        return self._key

    @property
    def at(self) -> str:
        """Whose state is seen, for an error; empty if nobody's is."""
        return "" if self._key is None else f"called for the key {self._keys.shown(self._key)}"

    def announce(self, key: Key) -> None:
        """The key that PySpark will name next, in the user's form."""
        self._next = key

    # -- what PySpark calls --------------------------------------------------------------------

    def set_handle_state(self, state: StatefulProcessorHandleState) -> None:
        """What the processor may do from now on."""
        self.handle_state = state

    def set_implicit_key(self, key: tuple[Any, ...]) -> None:
        """State is that of this key from now on."""
        assert self._next is not None, "a key is announced"
        self._key = self._next

    def remove_implicit_key(self) -> None:
        """No key's."""
        self._next = self._key = None

    def get_timestamps(self, time_mode: str) -> tuple[int, int]:
        """Processing time and watermark."""
        return (-1, -1) if time_mode.lower() == NO_TIME else (self.now_ms, self.watermark_ms)

    def register_timer(self, expiry_time_stamp_ms: int) -> None:
        """Of the present key."""
        self._check_timers("register_timer", "Error register timer")
        self._timers.register(self.key, _moment(expiry_time_stamp_ms))

    def delete_timer(self, expiry_time_stamp_ms: int) -> None:
        """Of the present key."""
        self._check_timers("delete_timer", "Error deleting timer")
        self._timers.delete(self.key, _moment(expiry_time_stamp_ms))

    def get_list_timer_row(self, iterator_id: str) -> tuple[int, bool]:
        """The next timer of the present key, and whether it is the last."""
        if iterator_id not in self._lists:
            self._check_timers("list_timers", "Error listing timers")
            self._lists[iterator_id] = _with_last(self._timers.of(self.key))
        return next(self._lists[iterator_id])

    def get_expiry_timers_iterator(
        self, iterator_id: str, expiry_timestamp: int
    ) -> tuple[Row, int, bool]:
        """The next timer that is due: its key, its time, and whether it is the last."""
        if iterator_id not in self._expired:
            due = _with_last(self._timers.due(expiry_timestamp))
            self._expired[iterator_id] = ((at, key, last) for (at, key), last in due)
        at_ms, key, is_last = next(self._expired[iterator_id])
        self.announce(key)
        return self._keys.row(key), at_ms, is_last

    def delete_if_exists(self, state_name: str) -> None:
        """Its rows were passed over when the others were restored."""
        self._check_init("delete_if_exists", "Error deleting state")

    # -- what the handle calls -----------------------------------------------------------------

    def variable(
        self, kind: str, name: str, schema: StructType | str, key: StructType | str | None = None
    ) -> tuple[Any, Codec, Codec | None]:
        """One that ``init`` declares, as it did on the driver."""
        self._check_init(f"get_{kind}_state", f"Error initializing {kind} state")
        known = self._declared.get(name)
        told = kind, self._json(schema), None if key is None else self._json(key)
        if known is None or told != (known.kind, known.value, known.key):
            raise other_variable(name)
        return self._variables[name]

    def _json(self, schema: StructType | str) -> str | None:
        return self._spec.types.get(schema) if isinstance(schema, str) else schema.json()

    def _check_init(self, operation: str, doing: str) -> None:
        if self.handle_state is not _State.CREATED:
            raise wrong_state(doing, operation, self.handle_state.name)

    def _check_timers(self, operation: str, doing: str) -> None:
        if self._spec.time_mode == NO_TIME:
            raise no_timers(doing, operation)
        if self.handle_state not in (_State.INITIALIZED, _State.DATA_PROCESSED):
            raise wrong_state(doing, operation, self.handle_state.name)


class Handle(StatefulProcessorHandle):
    """PySpark's, whose states ask the rows in memory."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)  # type: ignore[arg-type]  # it is one by its methods
        self._client = client

    def getValueState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> ValueState:
        rows, codec, _ = self._client.variable(VALUE, stateName, schema)
        return ValueState(_ValueCalls(self._client, rows, codec), stateName)  # type: ignore[arg-type]

    def getListState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> ListState:
        rows, codec, _ = self._client.variable(LIST, stateName, schema)
        return _ListState(_ListCalls(self._client, rows, codec), stateName)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        rows, codec, keys = self._client.variable(MAP, stateName, valueSchema, userKeySchema)
        assert keys is not None, "a map has keys"
        return _MapState(_MapCalls(self._client, rows, codec, keys), stateName)


class _ValueCalls:
    """What PySpark's ``ValueState`` calls."""

    def __init__(self, client: Client, rows: Values, codec: Codec) -> None:
        self._client, self._rows, self._codec = client, rows, codec

    def exists(self, state_name: str) -> bool:
        return self._rows.get(self._client.key) is not None

    def get(self, state_name: str) -> tuple[Any, ...] | None:
        kept = self._rows.get(self._client.key)
        return None if kept is None else self._codec.give_tuple(kept)

    def update(self, state_name: str, value: Any) -> None:
        self._rows.put(self._client.key, self._codec.take(value))

    def clear(self, state_name: str) -> None:
        self._rows.clear(self._client.key)


class _ListCalls:
    """What PySpark's ``ListState`` calls."""

    def __init__(self, client: Client, rows: Lists, codec: Codec) -> None:
        self._client, self._rows, self._codec = client, rows, codec

    def exists(self, state_name: str) -> bool:
        return self._rows.exists(self._client.key)

    def items(self) -> Iterator[tuple[Any, ...]]:
        for _, kept in self._rows.items(self._client.key):
            yield self._codec.give_tuple(kept)

    def append_value(self, state_name: str, value: Any) -> None:
        self._rows.append(self._client.key, [self._codec.take(value)])

    def append_list(self, state_name: str, values: Sequence[Any]) -> None:
        self._rows.append(self._client.key, self._some(state_name, values))

    def put(self, state_name: str, values: Sequence[Any]) -> None:
        self._rows.put(self._client.key, self._some(state_name, values))

    def clear(self, state_name: str) -> None:
        self._rows.clear(self._client.key)

    def _some(self, state_name: str, values: Sequence[Any]) -> list[Kept]:
        kept = [self._codec.take(value) for value in values]
        if not kept:
            raise empty_list(state_name)
        return kept


class _ListState(ListState):
    def __init__(self, calls: _ListCalls, state_name: str) -> None:
        super().__init__(calls, state_name)  # type: ignore[arg-type]
        self._items: Callable[[], Iterator[tuple[Any, ...]]] = calls.items

    def get(self) -> Iterator[tuple[Any, ...]]:
        return self._items()


class _MapCalls:
    """What PySpark's ``MapState`` calls."""

    def __init__(self, client: Client, rows: Maps, codec: Codec, keys: Codec) -> None:
        self._client, self._rows, self._codec, self._key_codec = client, rows, codec, keys
        self._keys = Keys(list(keys.dtype))

    def exists(self, state_name: str) -> bool:
        return self._rows.exists(self._client.key)

    def get_value(self, state_name: str, user_key: Any) -> Row | None:
        kept = self._rows.get(self._client.key, self._key(user_key))
        return None if kept is None else self._codec.give(kept)

    def contains_key(self, state_name: str, user_key: Any) -> bool:
        return self._rows.get(self._client.key, self._key(user_key)) is not None

    def update_value(self, state_name: str, user_key: Any, value: Any) -> None:
        self._rows.put(self._client.key, self._key(user_key), self._codec.take(value))

    def remove_key(self, state_name: str, key: Any) -> None:
        self._rows.remove(self._client.key, self._key(key))

    def clear(self, state_name: str) -> None:
        self._rows.clear(self._client.key)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return (tuple(self._keys.row(key)) for key, _ in self._items())

    def values(self) -> Iterator[tuple[Any, ...]]:
        return (self._codec.give_tuple(kept) for _, kept in self._items())

    def pairs(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return (
            (tuple(self._keys.row(key)), self._codec.give_tuple(kept))
            for key, kept in self._items()
        )

    def _items(self) -> Iterator[tuple[Key, Kept]]:
        yield from self._rows.items(self._client.key)

    def _key(self, user_key: Any) -> Key:
        return self._keys.freeze(self._key_codec.take(user_key))


class _MapState(MapState):
    def __init__(self, calls: _MapCalls, state_name: str) -> None:
        super().__init__(calls, state_name)  # type: ignore[arg-type]
        self._calls = calls

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return self._calls.pairs()

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return self._calls.keys()

    def values(self) -> Iterator[tuple[Any, ...]]:
        return self._calls.values()


def _moment(time_ms: int) -> int:
    """As the protocol buffers of PySpark's client have it."""
    found = index(time_ms)
    if not -LATEST_MS - 1 <= found <= LATEST_MS:
        raise ValueError(f"Value out of range: {found}")
    return found


def _with_last(items: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Each with whether it is the last."""
    left = iter(items)
    for item in left:
        for following in left:
            yield item, False
            item = following
        yield item, True
