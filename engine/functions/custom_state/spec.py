"""What a plan says of a function with state: the ``params`` of a
:class:`~engine.pipeline.stateful.RunCustomState`, which are the fields of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from engine.pipeline.pipeline import FunctionSession, PythonFunction

VALUE: Final = "value"
LIST: Final = "list"
MAP: Final = "map"
NO_TIME: Final = "none"
PROCESSING_TIME: Final = "processingtime"
EVENT_TIME: Final = "eventtime"
"""Time modes, as PySpark compares them: in lower case."""


@dataclass(frozen=True)
class StateVariable:
    """One that ``init`` declares.

    :param kind: ``value``, ``list`` or ``map``.
    :param value: the schema of a value, as the JSON of a ``StructType``.
    :param key: that of a key of a map.
    :param ttl_ms: how long a value lives behind the processing time at which it was written; None:
        for ever.
    """

    name: str
    kind: str
    value: str
    key: str | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True)
class InitialState:
    """The rows that a query's state begins with.

    :param rows: of all keys.
    :param keys: positions of the grouping columns in these.
    :param arguments: positions of the columns that the processor gets.
    """

    rows: pa.Table
    keys: tuple[int, ...]
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Processor:
    """``transformWithState`` and ``transformWithStateInPandas``.

    :param function: the pickled method of PySpark's that calls the user's processor.
    :param arguments: positions of the columns that it gets.
    :param in_pandas: as DataFrames; else as Rows.
    :param time_mode: see :data:`PROCESSING_TIME` and the others.
    :param deleted: variables of earlier runs that ``init`` deletes.
    :param types: schemas that ``init`` gives as DDL, as the JSON of a ``StructType``: an executor
        has no parser.
    :param emitted_time: the position, among the columns that it returns, of the event time of the
        steps that follow.
    """

    function: PythonFunction
    session: FunctionSession
    arguments: tuple[int, ...]
    in_pandas: bool
    time_mode: str
    variables: tuple[StateVariable, ...]
    deleted: frozenset[str] = frozenset()
    types: Mapping[str, str] = field(default_factory=dict)
    initial: InitialState | None = None
    emitted_time: int | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Processor:
        """The ``params`` of a step."""
        return cls(**params)


@dataclass(frozen=True)
class GroupFunction:
    """``applyInPandasWithState``.

    :param function: what the user wrote, pickled.
    :param arguments: positions of the columns that it gets.
    :param state: the schema of the state, as the JSON of a ``StructType``.
    :param timeout: a constant of PySpark's ``GroupStateTimeout``.
    :param has_watermark: whether there is an event time at all.
    """

    function: PythonFunction
    session: FunctionSession
    arguments: tuple[int, ...]
    state: str
    timeout: str
    has_watermark: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> GroupFunction:
        """The ``params`` of a step."""
        return cls(**params)
