"""Between Arrow and pandas, as PySpark converts for functions with state.

Since 4.2 PySpark has functions for that; in 4.1 it is the work of a serializer, which reads and
writes streams.

Source: PySpark's ``ApplyInPandasWithStateSerializer``, ``TransformWithStateInPandasSerializer``.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.functions.arrow_stream import BatchesAsFile
from engine.functions.invoke import unwrapped
from engine.functions.pyspark_worker import load, sent_batches, unpickled
from engine.pipeline.pipeline import FunctionSession, PythonFunction

if TYPE_CHECKING:
    import pandas as pd

    ToSeries = Callable[[pa.RecordBatch], list[pd.Series[Any]]]
    FromFrame = Callable[[pd.DataFrame], pa.RecordBatch]

GROUP_STATE: Final = 208
"""``PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE``."""
_OFFSETS: Final = (3, 1, 0, 0)
"""Of a key and a row of one column: which columns there are the serializer does not ask."""
_NO_STATE: Final = {"type": "struct", "fields": []}


class PandasConversion:
    """:param function: tells which columns it returns.
    :param returned: these, as the engine has them.
    """

    def __init__(
        self, function: PythonFunction, session: FunctionSession, returned: pa.Schema
    ) -> None:
        conversion: Any = import_module("pyspark.sql.conversion")
        made = _of_functions if hasattr(conversion, "PandasToArrowConversion") else _of_serializer
        self._to_series, self._from_frame = made(function, session)
        self._name = function.name
        self._returned = returned

    def series(self, batch: pa.RecordBatch) -> list[pd.Series[Any]]:
        """The columns of a batch."""
        return self._to_series(batch)

    def batch(self, frame: pd.DataFrame) -> pa.RecordBatch:
        """A result.

        :raises TransformError: its columns are not of the types that were declared.
        """
        return unwrapped(self._from_frame(frame), self._name, self._returned)


def _of_functions(function: PythonFunction, session: FunctionSession) -> tuple[ToSeries, FromFrame]:
    conversion: Any = import_module("pyspark.sql.conversion")
    _, returned = unpickled(function)
    conf = session.conf
    timezone = conf.get("spark.sql.session.timeZone")

    def to_series(batch: pa.RecordBatch) -> list[pd.Series[Any]]:
        series: list[pd.Series[Any]] = conversion.ArrowBatchTransformer.to_pandas(batch, timezone)
        return series

    def from_frame(frame: pd.DataFrame) -> pa.RecordBatch:
        return conversion.PandasToArrowConversion.convert(
            frame,
            returned,
            timezone=timezone,
            safecheck=_is_set(conf, "spark.sql.execution.pandas.convertToArrowArraySafely"),
            arrow_cast=True,
            assign_cols_by_name=_is_set(
                conf,
                "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
                default="true",
            ),
            int_to_decimal_coercion_enabled=_is_set(
                conf, "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"
            ),
        )

    return to_series, from_frame


def _is_set(conf: Any, key: str, default: str = "false") -> bool:
    return bool(conf.get(key, default) == "true")


def _of_serializer(
    function: PythonFunction, session: FunctionSession
) -> tuple[ToSeries, FromFrame]:
    from pyspark.sql.pandas.serializers import (
        ArrowStreamPandasSerializer,
        ArrowStreamPandasUDFSerializer,
    )
    from pyspark.sql.pandas.types import to_arrow_type

    _, returned = unpickled(function)
    described = replace(function, arguments=_OFFSETS, keywords=(None,) * len(_OFFSETS))
    serializer = load(GROUP_STATE, [described], session.conf, _NO_STATE).serializer
    read: Any = ArrowStreamPandasSerializer.load_stream  # neither is annotated
    write: Any = ArrowStreamPandasUDFSerializer.dump_stream
    dtype = to_arrow_type(returned)

    def to_series(batch: pa.RecordBatch) -> list[pd.Series[Any]]:
        (columns,) = read(serializer, BatchesAsFile(iter((batch,)), batch.schema))
        return list(columns)

    def from_frame(frame: pd.DataFrame) -> pa.RecordBatch:
        sent = sent_batches(
            lambda items, stream: write(serializer, items, stream), [(frame, dtype)]
        )
        (batch,) = pa.ipc.open_stream(io.BytesIO(sent))
        return pa.RecordBatch.from_struct_array(batch.column(0))

    return to_series, from_frame
