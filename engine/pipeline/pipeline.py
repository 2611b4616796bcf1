"""A query as plain data: source, steps, output schema. Picklable; needs no JVM and no pyspark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from engine.expressions.times.zone_rules import JavaRules
from engine.expressions.tree import Expr
from engine.pipeline.stateful import (
    Aggregate,
    Exchange,
    Exchanged,
    PartGroup,
    StatefulStep,
)


@dataclass(frozen=True)
class SourceRelation:
    """The one stream a query reads.

    :param format: the name given to ``readStream.format``.
    :param options: its options, with the keys as they were written; Spark's are case-insensitive.
    :param schema: the columns in the plan's order. An Arrow schema whose field types are those of
        :mod:`engine.expressions.types`.
    :param data_source: the pickled class of a Python data source that was registered in the
        session; None for the sources of the JVM.
    """

    format: str
    options: Mapping[str, str]
    schema: pa.Schema
    data_source: bytes | None = None


@dataclass(frozen=True)
class Filter:
    """Keep the rows for which the condition is true (null is not)."""

    condition: Expr


@dataclass(frozen=True)
class Project:
    """Compute columns. ``columns`` and ``schema`` have the same length and order."""

    columns: tuple[Expr, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Watermark:
    """Event time: how far it has come is told to the driver, which makes a watermark of it.
    ``delay_ms`` may be 0.

    :param ordinal: the position of the event-time column in the step's input.
    :param number: of the watermark among all of the query.
    """

    ordinal: int
    delay_ms: int
    number: int = 0


BatchStream = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""From an iterator of batches to an iterator of batches; both live for one epoch."""

IDLE: Final = pa.RecordBatch.from_pylist([])
"""Stands among the batches, told by its identity, for "nothing has come for a while"."""


@runtime_checkable
class TimedStage(Protocol):
    """A :data:`BatchStream` that has something to do while nothing comes: timers, for example. It
    gets :data:`IDLE` whenever a look at the source found nothing, and may return rows upon it."""

    wants_idle: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """See :data:`BatchStream`."""


@dataclass(frozen=True)
class PythonFunction:
    """A function that the user wrote.

    :param name: for explain and errors.
    :param commands: what PySpark pickled, each ``(function, return type)``. Several are a chain:
        each is called with the raw result of the one before.
    :param arguments: positions among the columns that it gets.
    :param keywords: for each of them the name that it is passed by, None for by position.
    :param dtype: the declared type of the result.
    :param deterministic: as declared; equal calls of a function that is not are all made.
    :param analyzed: what the ``analyze`` of a table function has returned, pickled.
    """

    name: str
    commands: tuple[bytes, ...]
    arguments: tuple[int, ...]
    keywords: tuple[str | None, ...]
    dtype: pa.DataType
    deterministic: bool = True
    analyzed: bytes | None = None


@dataclass(frozen=True)
class FunctionSession:
    """What functions need of the session that they come from.

    :param conf: Spark's settings for its Python workers.
    :param broadcasts: the pickled values of the broadcast variables that they use, by id.
    """

    conf: Mapping[str, str]
    broadcasts: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class EvalPython:
    """Append one column per function: ``input columns + one column for each of functions``.

    :param width: how many columns the input has.
    :param eval_type: one of PySpark's ``PythonEvalType``, the same for all functions.
    :param arguments: the columns that the functions get.
    :param schema: of the columns that are appended.
    :param start: runs on the executor, from the step to a function on batches of arguments. It is
        carried along because the heart of the engine must not import pyspark.
    :param aligned: whether each batch of arguments gives one batch of results with as many rows;
        else (iterator functions) only the sums over an epoch agree.
    """

    width: int
    eval_type: int
    functions: tuple[PythonFunction, ...]
    arguments: tuple[Expr, ...]
    schema: pa.Schema
    session: FunctionSession
    start: Callable[[EvalPython], BatchStream]
    aligned: bool = True


@dataclass(frozen=True)
class MapBatches:
    """``mapInArrow`` or ``mapInPandas``: a function over all batches of an epoch.

    :param input: the columns that it gets.
    :param schema: the columns that it returns.
    :param start: see :class:`EvalPython`.
    """

    eval_type: int
    function: PythonFunction
    input: pa.Schema
    schema: pa.Schema
    session: FunctionSession
    start: Callable[[MapBatches], BatchStream]


@dataclass(frozen=True)
class Generate:
    """Several rows out of one: each is the input row with the columns of one element behind it.

    :param generator: ``Explode``, ``PosExplode``, ``Inline`` or ``Stack``: Spark's class name.
    :param arguments: the array or map; for ``Stack`` the values, row after row.
    :param outer: a row without elements stays, with nulls behind it.
    :param schema: of the columns that are appended.
    :param width: how many columns the input has.
    :param rows: how many rows ``Stack`` makes out of one; values that are missing are null.
    """

    generator: str
    arguments: tuple[Expr, ...]
    outer: bool
    schema: pa.Schema
    width: int
    rows: int = 0


@dataclass(frozen=True)
class Expand:
    """As many rows out of one as there are projections (``unpivot``)."""

    projections: tuple[tuple[Expr, ...], ...]
    schema: pa.Schema


@dataclass(frozen=True)
class StaticJoin:
    """Join each row with the rows of a table that does not change: its columns behind the row's.

    :param kind: seen from the stream: ``inner``, ``outer`` (a row without a match stays, with nulls
        behind it), ``single`` (likewise, and a second match is an error), ``semi`` and ``anti``,
        which append no columns, or ``existence``, which appends whether there is a match.
    :param keys: of the stream; one for each of ``table_keys``, and of its type.
    :param table_keys: computed columns of the table's keys, as long as the table.
    :param null_safe: for each key, whether null equals null.
    :param residual: over the stream's columns and the table's: what else a match must fulfil.
    :param table: the columns that are looked up.
    :param width: how many columns the input has.
    :param by_bits: whether keys are equal when their bits are: 0.0 is not -0.0.
    """

    kind: str
    keys: tuple[Expr, ...]
    table_keys: tuple[pa.Array, ...]
    null_safe: tuple[bool, ...]
    residual: Expr | None
    table: pa.RecordBatch
    width: int
    by_bits: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Of the columns that are appended."""
        if self.kind in ("semi", "anti"):
            return pa.schema([])
        if self.kind == "existence":
            return pa.schema([pa.field("exists", pa.bool_(), False)])
        if self.kind in ("outer", "single"):
            return pa.schema([field.with_nullable(True) for field in self.table.schema])
        return self.table.schema


@dataclass(frozen=True)
class Observe:
    """Rows pass; aggregates over those of an epoch are told in its progress (``df.observe``).

    :param results: the metrics, over the aggregates' values as columns.
    :param schema: of the metrics.
    """

    name: str
    aggregates: tuple[Aggregate, ...]
    results: tuple[Expr, ...]
    schema: pa.Schema

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """All that is computed over the rows."""
        return tuple(argument for each in self.aggregates for argument in each.arguments)


@dataclass(frozen=True)
class Tap:
    """Rows pass, and are shown to somebody: see :mod:`engine.execution.replay`.

    :param show: gets each batch, from the thread of whichever task has it.
    :param schema: what the batches are labelled with, if it is not theirs: that behind a last step.
    """

    show: Callable[[pa.RecordBatch], None]
    schema: pa.Schema | None = None


Step = (
    Filter
    | Project
    | Watermark
    | EvalPython
    | MapBatches
    | Generate
    | Expand
    | StaticJoin
    | Observe
    | Tap
    | PartGroup
    | StatefulStep
)


@dataclass(frozen=True)
class Pipeline:
    """What a task runs between its reader and its writer. A query has one for each stream that it
    reads, and one behind each exchange: then its tasks read what others send, and only those of the
    pipelines without an exchange behind them write to the sink.

    :param steps: in the order in which batches pass them.
    :param schema: the columns that reach the sink, or are sent.
    :param exchange: where they are sent; None: to the sink.
    :param session_timezone: IANA name.
    :param exact_math: see :class:`engine.expressions.registry.Context`.
    :param watermark_lag_ms: so far behind the query's is the watermark that its steps see: behind a
        join of two streams, rows come out so much later than they went in.
    :param zone_rules: the time zones of the driver's JVM, by which the task goes from then on;
        None: those that its process goes by already.
    """

    source: SourceRelation | Exchanged
    steps: tuple[Step, ...]
    schema: pa.Schema
    session_timezone: str = "UTC"
    exact_math: bool = False
    descriptions: tuple[str, ...] = field(default=())
    zone_rules: JavaRules | None = field(default=None, repr=False)
    exchange: Exchange | None = None
    watermark_lag_ms: int = 0

    @property
    def stage(self) -> Exchanged | None:
        """What others send it; None of one that reads a stream."""
        return self.source if isinstance(self.source, Exchanged) else None

    @property
    def kept(self) -> StatefulStep | None:
        """The step that remembers something: the first of a stage; one of the others in a pipeline
        that reads a stream whose keys stay in its partitions; None if there is none."""
        return next((step for step in self.steps if isinstance(step, StatefulStep)), None)


def schema_behind(step: Step, schema: pa.Schema) -> pa.Schema:
    """The columns behind a step.

    :param schema: those in front of it.
    """
    if isinstance(step, (Filter, Watermark, Observe, Tap)):
        return schema
    if isinstance(step, (EvalPython, Generate, StaticJoin)):
        return pa.schema([*schema, *step.schema])
    return step.schema
