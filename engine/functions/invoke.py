"""Runs the user's Python functions on the executor, in the task's own process.

A function over an iterator (iterator UDFs, ``mapInArrow``, ``mapInPandas``) is called once per
epoch, as Spark calls it once per micro-batch and partition. It gets each batch the moment it
arrives, and its iterator ends with the epoch: whatever it still holds comes out before the epoch's
end. Set-up that is to be made only once per process belongs into a global or a cached function.

No batch has more rows than ``spark.sql.execution.arrow.maxRecordsPerBatch``.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from engine.errors import ContinuousError, TransformError
from engine.expressions.types import TIMESTAMP, schema_to_spark
from engine.functions.arrow_stream import BatchesAsFile
from engine.functions.pickled_results import to_column
from engine.functions.pyspark_worker import Worker, load, provide_broadcasts, sent_batches
from engine.pipeline.pipeline import BatchStream, EvalPython, FunctionSession, MapBatches

PICKLED: Final = 100
"""``PythonEvalType.SQL_BATCHED_UDF``: row by row, without Arrow."""

_NOT_THE_USERS: Final = ("pyspark", "pyarrow", "pandas", "engine")
_ROWS_MAX: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


def start_functions(step: EvalPython) -> BatchStream:
    """Unpickle the functions of a step: from batches of arguments to batches of results."""
    arguments = arguments_schema(step)
    provide_broadcasts(step.session.broadcasts)
    worker = load(step.eval_type, step.functions, step.session.conf, schema_to_spark(arguments))
    names = ", ".join(function.name for function in step.functions)
    run = _run_pickled if step.eval_type == PICKLED else _run_arrow
    given = zoned(arguments, step.session)

    def stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = sliced((labelled(batch, given) for batch in batches), step.session)
        results = run(worker, inputs, given, step.schema)
        return blamed(results, names)

    return stream


def arguments_schema(step: EvalPython) -> pa.Schema:
    """Of the columns that functions get."""
    fields = [
        pa.field(f"_{index}", argument.dtype, argument.nullable)
        for index, argument in enumerate(step.arguments)
    ]
    return pa.schema(fields)


def start_map(step: MapBatches) -> BatchStream:
    """Unpickle a function over batches: from batches of its input to batches of its output."""
    row = pa.schema([pa.field("_0", pa.struct(list(zoned(step.input, step.session))), False)])
    provide_broadcasts(step.session.broadcasts)
    worker = load(step.eval_type, [step.function], step.session.conf, schema_to_spark(step.input))

    def stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = sliced((_wrapped(batch, row) for batch in batches), step.session)
        for result in blamed(_run_arrow(worker, inputs, row, None), step.function.name):
            if result.num_rows:
                rows = pa.RecordBatch.from_struct_array(result.column(0))
                yield unwrapped(rows, step.function.name, step.schema)

    return stream


def _run_arrow(
    worker: Worker, inputs: Iterator[pa.RecordBatch], given: pa.Schema, due: pa.Schema | None
) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    if type(worker.serializer) is ArrowStreamSerializer:
        results = worker.call(inputs)
    else:  # which converts from and to pandas while it reads and writes
        results = _received(worker, worker.deserializer.load_stream(BatchesAsFile(inputs, given)))
    for batch in results:
        yield batch if due is None else labelled(batch, due)


def _received(worker: Worker, inputs: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    for item in worker.call(inputs):
        yield from pa.ipc.open_stream(io.BytesIO(sent_batches(worker.serializer.dump_stream, item)))


def _run_pickled(
    worker: Worker, inputs: Iterator[pa.RecordBatch], given: pa.Schema, due: pa.Schema
) -> Iterator[pa.RecordBatch]:
    rows_of = row_reader(given)
    for batch in inputs:
        results = list(worker.call(rows_of(batch)))
        by_function = [results] if len(due) == 1 else list(zip(*results, strict=True))
        arrays = [to_column(v, f.type) for v, f in zip(by_function, due, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=due)


def row_reader(given: pa.Schema) -> Callable[[pa.RecordBatch], Iterator[tuple[Any, ...]]]:
    """From batches of arguments to rows of the values that functions get without Arrow."""
    from pyspark.sql.conversion import ArrowTableToRowsConversion
    from pyspark.sql.types import StructType

    converters = [
        ArrowTableToRowsConversion._create_converter(field.dataType, none_on_identity=True)
        for field in StructType.fromJson(schema_to_spark(_zoneless(given)))
    ]

    def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        columns = [
            column.to_pylist() if convert is None else [convert(v) for v in column.to_pylist()]
            for column, convert in zip(batch.columns, converters, strict=True)
        ]
        return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)

    return rows


# -- types ------------------------------------------------------------------------------------


def zoned(schema: pa.Schema, session: FunctionSession) -> pa.Schema:
    """As functions see it: timestamps carry the session's zone."""
    zone = session.conf.get("spark.sql.session.timeZone", "UTC")
    return pa.schema(
        [field.with_type(_replaced(field.type, pa.timestamp("us", tz=zone))) for field in schema]
    )


def _zoneless(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_replaced(field.type, TIMESTAMP)) for field in schema])


def _replaced(dtype: pa.DataType, instant: pa.DataType) -> pa.DataType:
    """The type with ``instant`` for every timestamp that has a zone, and no large types."""
    if pa.types.is_timestamp(dtype) and dtype.tz is not None and dtype.unit == "us":
        return instant
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype):
        return pa.binary()
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_replaced(field.type, instant)) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(
            dtype.key_field.with_type(_replaced(dtype.key_type, instant)),
            dtype.item_field.with_type(_replaced(dtype.item_type, instant)),
        )
    if pa.types.is_list(dtype):
        value = dtype.value_field
        return pa.list_(value.with_type(_replaced(value.type, instant)))
    return dtype


def labelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under a schema that differs in zones, names and nullability only."""
    if batch.schema == schema or not batch.num_columns:
        return batch
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wrapped(batch: pa.RecordBatch, row: pa.Schema) -> pa.RecordBatch:
    fields = list(row.field(0).type)
    columns = labelled(batch, pa.schema(fields)).columns
    struct = (
        pa.StructArray.from_arrays(columns, fields=fields)
        if fields
        else pa.array([{}] * batch.num_rows, pa.struct([]))
    )
    return pa.RecordBatch.from_arrays([struct], schema=row)


def unwrapped(result: pa.RecordBatch, name: str, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a result, by position; their types must be those that were declared.

    :param name: of the function.
    :param schema: what was declared.
    :raises TransformError: the types differ.

    Source: Spark's ``MapInBatchEvaluatorFactory``.
    """
    due, found = schema.types, result.schema.types
    plain = [_replaced(dtype, TIMESTAMP) for dtype in found]
    if [_shape(dtype) for dtype in plain[: len(due)]] != [_shape(dtype) for dtype in due]:
        raise TransformError(
            f"[ARROW_TYPE_MISMATCH] The Python function {name} returned columns of "
            f"the types {', '.join(map(str, found))} where {', '.join(map(str, due))} were "
            "declared.",
            hint="Cast them in the function, or declare what it returns.",
        )
    if not due:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * result.num_rows, pa.struct([])))
    columns = pa.RecordBatch.from_arrays(
        result.columns[: len(due)], names=[str(index) for index in range(len(due))]
    )
    return labelled(columns, schema)


def _shape(dtype: pa.DataType) -> str:
    """A type without what Spark does not compare: nullability, and the names of list items."""
    if pa.types.is_struct(dtype):
        return f"struct<{', '.join(f'{field.name}: {_shape(field.type)}' for field in dtype)}>"
    if pa.types.is_map(dtype):
        return f"map<{_shape(dtype.key_type)}, {_shape(dtype.item_type)}>"
    return f"list<{_shape(dtype.value_type)}>" if pa.types.is_list(dtype) else str(dtype)


# -- batches ----------------------------------------------------------------------------------


def rows_max(session: FunctionSession) -> int:
    """How many rows the user's functions get at once; 0 or less: any number."""
    return int(session.conf.get(_ROWS_MAX, "10000"))


def sliced(batches: Iterator[pa.RecordBatch], session: FunctionSession) -> Iterator[pa.RecordBatch]:
    most = rows_max(session)
    for batch in batches:
        if 0 < most < batch.num_rows:
            for start in range(0, batch.num_rows, most):
                yield batch.slice(start, most)
        else:
            yield batch


def blamed(results: Iterator[pa.RecordBatch], names: str) -> Iterator[pa.RecordBatch]:
    """The results; what the user's function raises becomes an error that says where it did."""
    while True:
        try:
            batch = next(results)
        except StopIteration:
            return
        except ContinuousError:
            raise  # of the source that the function reads, or of a check of ours
        except Exception as error:
            raise failed(names, error) from error
        yield batch


def failed(names: str, error: Exception, at: str = "") -> TransformError:
    """What the user's function has raised, and where it did.

    :param at: what the function was called for; empty if that is not known.
    """
    called = f"The Python function {names} failed{_place(error)}{at and f', {at}'}"
    return TransformError(f"{called}: {_last_line(error)}")


def _place(error: Exception) -> str:
    """Where in the user's code; empty if nothing of it is on the stack."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not _is_ours(frame.filename):
            return f" in {frame.name} ({Path(frame.filename).name}, line {frame.lineno})"
    return ""


def _is_ours(filename: str) -> bool:
    packages = [sys.modules[name].__path__ for name in _NOT_THE_USERS if name in sys.modules]
    return filename.startswith(("<frozen", *(str(each) for paths in packages for each in paths)))


def _last_line(error: Exception) -> str:
    return traceback.format_exception_only(type(error), error)[-1].strip()
