"""A query as plain data: source, steps, output schema. Picklable; needs no JVM and no pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from engine.expressions.tree import Expr


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
    """Event time: kept, not acted on. ``delay_ms`` may be 0.

    :param ordinal: the position of the event-time column in the step's input.
    """

    ordinal: int
    delay_ms: int


Step = Filter | Project | Watermark


@dataclass(frozen=True)
class Pipeline:
    """What a task runs between its reader and its writer.

    :param steps: in the order in which batches pass them.
    :param schema: the columns that reach the sink.
    :param session_timezone: IANA name.
    """

    source: SourceRelation
    steps: tuple[Step, ...]
    schema: pa.Schema
    session_timezone: str = "UTC"
    descriptions: tuple[str, ...] = field(default=())
