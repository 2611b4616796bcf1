"""Which state variables a processor declares: its ``init`` is run on the driver, as Spark does
before a query starts.

What an executor would ask the JVM for is found out here, too: the schemas that are given as DDL.

Source: PySpark's ``transform_with_state_driver_worker``; Spark's
``DriverStatefulProcessorHandleImpl``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasFuncMode
from pyspark.sql.types import StructType

from engine.functions.custom_state.complaints import (
    duplicate_variable,
    ttl_not_positive,
    ttl_without_processing_time,
    wrong_state,
)
from engine.functions.custom_state.spec import LIST, MAP, PROCESSING_TIME, VALUE, StateVariable

_TIME_MODES = {"none": "None", "processingtime": "ProcessingTime", "eventtime": "EventTime"}


@dataclass
class Declared:
    """What ``init`` has declared.

    :param processor: the name of the user's class.
    :param time_mode: see :class:`engine.functions.custom_state.spec.Processor`, and of the others.
    """

    processor: str
    time_mode: str
    variables: list[StateVariable] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)


def declared(method: Any, parse: Callable[[str], str]) -> Declared:
    """Run a processor's ``init`` and ``close``.

    :param method: what PySpark has pickled, unpickled: the user's own object is left alone.
    :param parse: from DDL to the JSON of a ``StructType``.
    :raises PySparkRuntimeError: it declares what Spark refuses. What it raises itself is raised.
    """
    utils = method.__self__
    found = Declared(type(utils._stateful_processor).__name__, utils._time_mode.lower())
    mode = TransformWithStateInPandasFuncMode.PRE_INIT
    method(_Declaring(found, parse), mode, None, iter(()))
    return found


class _Declaring:
    """What PySpark's handle asks while ``init`` runs on the driver."""

    def __init__(self, found: Declared, parse: Callable[[str], str]) -> None:
        self._found = found
        self._parse = parse
        self.handle_state = StatefulProcessorHandleState.PRE_INIT

    def set_handle_state(self, state: StatefulProcessorHandleState) -> None:
        self.handle_state = state

    def get_value_state(self, name: str, schema: Any, ttl_ms: int | None) -> None:
        self._declare(VALUE, name, schema, None, ttl_ms)

    def get_list_state(self, name: str, schema: Any, ttl_ms: int | None) -> None:
        self._declare(LIST, name, schema, None, ttl_ms)

    def get_map_state(self, name: str, key: Any, schema: Any, ttl_ms: int | None) -> None:
        self._declare(MAP, name, schema, key, ttl_ms)

    def delete_if_exists(self, name: str) -> None:
        self._found.deleted.add(name)

    def _declare(self, kind: str, name: str, schema: Any, key: Any, ttl_ms: int | None) -> None:
        found = self._found
        if any(each.name == name for each in found.variables):
            raise duplicate_variable(name)
        if ttl_ms is not None and ttl_ms != 0:
            if found.time_mode != PROCESSING_TIME:
                raise ttl_without_processing_time(name, _TIME_MODES[found.time_mode])
            if ttl_ms < 0:
                raise ttl_not_positive(name)
        of_key = None if key is None else self._json(key)
        variable = StateVariable(name, kind, self._json(schema), of_key, ttl_ms or None)
        found.variables.append(variable)

    def _json(self, schema: StructType | str) -> str:
        if not isinstance(schema, str):
            return schema.json()
        if schema not in self._found.types:
            self._found.types[schema] = self._parse(schema)
        return self._found.types[schema]

    def _parse_string_schema(self, schema: str) -> StructType:
        return StructType.fromJson(json.loads(self._json(schema)))

    def register_timer(self, expiry_time_stamp_ms: int) -> None:
        raise wrong_state("Error register timer", "register_timer", self.handle_state.name)

    def delete_timer(self, expiry_time_stamp_ms: int) -> None:
        raise wrong_state("Error deleting timer", "delete_timer", self.handle_state.name)

    def get_list_timer_row(self, iterator_id: str) -> tuple[int, bool]:
        raise wrong_state("Error listing timers", "list_timers", self.handle_state.name)

    def _send_proto_message(self, message: bytes) -> None:
        """What PySpark's states call for whatever they are asked."""
        raise wrong_state("Error in init()", "use of a state variable", self.handle_state.name)

    def _serialize_to_bytes(self, schema: StructType, data: Any) -> bytes:
        return b""
