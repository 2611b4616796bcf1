"""Rows of groups as DataFrames.

A batch is converted once, and each key's frame is a slice of the whole: to make a frame of the rows
of each key takes ten times as long. A column of whole numbers or booleans that has NULLs somewhere
is a column of floating numbers or objects in pandas; as in Spark, which converts key by key, it is
so only for keys whose rows have NULLs.

``transformWithStateInPandas`` makes its frames of named tuples, of which follows

- numbers are 64 bits wide;
- a column's name that is no identifier is ``_`` and its position.

Source: PySpark's ``ApplyInPandasWithStateSerializer``, ``TransformWithStateInPandasSerializer``.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.functions.custom_state.pandas_conversion import PandasConversion
from engine.functions.invoke import labelled

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class _Varying:
    """A column whose type in pandas depends on whether there are NULLs.

    :param has_nulls: for each key.
    :param values: as they are without; anything in the place of NULL.
    """

    index: int
    has_nulls: npt.NDArray[np.bool_]
    values: npt.NDArray[Any]


class Frames:
    """:param arguments: the columns that the user gets, as functions see them.
    :param keys: those of the key, likewise.
    :param of_tuples: see the module.
    :param rows_max: a frame has no more rows.
    """

    def __init__(
        self,
        convert: PandasConversion,
        arguments: pa.Schema,
        keys: pa.Schema,
        *,
        of_tuples: bool,
        rows_max: int,
    ) -> None:
        self._convert = convert
        self._arguments = widened(arguments) if of_tuples else arguments
        self._keys = widened(keys) if of_tuples else keys
        self._of_tuples = of_tuples
        self._rows_max = rows_max if rows_max > 0 else 1 << 31
        self.names = _field_names(arguments.names) if of_tuples else arguments.names

    def keys(self, columns: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        """The user's form of keys: of Python's values, or of NumPy's without named tuples."""
        batch = _labelled(columns, self._keys)
        series = self._convert.series(batch)
        values = [
            self._key_values(column, each)
            for column, each in zip(batch.columns, series, strict=True)
        ]
        return list(zip(*values, strict=True))

    def groups(
        self, columns: Sequence[pa.Array], starts: npt.NDArray[np.int64]
    ) -> Iterator[Iterator[pd.DataFrame]]:
        """What the user gets of each key.

        :param starts: see :class:`engine.functions.custom_state.keys.Grouped`.
        """
        import pandas as pd

        batch = _labelled(columns, self._arguments)
        whole = pd.concat(self._convert.series(batch), axis=1)
        whole.columns = pd.Index(self.names)
        varying = [
            _varying(index, column, starts)
            for index, column in enumerate(batch.columns)
            if column.null_count and _is_varying(column.type)
        ]
        bounds = starts.tolist()
        for group, (start, end) in enumerate(pairwise(bounds)):
            yield self._frames(whole, start, end, [v for v in varying if not v.has_nulls[group]])

    def empty(self) -> pd.DataFrame:
        """Without rows, as PySpark makes it for a timeout."""
        import pandas as pd

        return pd.DataFrame(columns=pd.Index(self.names))

    def _frames(
        self, whole: pd.DataFrame, start: int, end: int, narrowed: list[_Varying]
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for first in range(start, end, self._rows_max):
            last = min(first + self._rows_max, end)
            frame = whole.iloc[first:last]
            frame.index = pd.RangeIndex(last - first)
            frame._is_copy = None  # type: ignore[attr-defined]  # its rows are in no other frame
            for each in narrowed:
                frame.isetitem(each.index, each.values[first:last])
            yield frame

    def _key_values(self, column: pa.Array, series: pd.Series[Any]) -> list[Any]:
        if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
            missing = None if pa.types.is_boolean(column.type) else np.float64("nan")
            values = column.to_pylist()
            if not self._of_tuples:
                of_numpy = column.type.to_pandas_dtype()
                return [missing if value is None else of_numpy(value) for value in values]
            return [missing if value is None else value for value in values]
        return list(series) if self._of_tuples else [series.iloc[i] for i in range(len(series))]


def widened(schema: pa.Schema) -> pa.Schema:
    """With numbers of 64 bits."""
    return pa.schema([field.with_type(_wide(field.type)) for field in schema])


def _wide(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(dtype):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(dtype) else dtype


def _field_names(names: Sequence[str]) -> list[str]:
    of_tuples: Any = namedtuple("Pandas", names, rename=True)  # type: ignore[misc]
    return list(of_tuples._fields)


def _labelled(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    names = [str(index) for index in range(len(schema))]
    return labelled(pa.RecordBatch.from_arrays(list(columns), names=names), schema)


def _is_varying(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_boolean(dtype))


def _varying(index: int, column: pa.Array, starts: npt.NDArray[np.int64]) -> _Varying:
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    has_nulls = np.add.reduceat(nulls, starts[:-1], dtype=np.int64) > 0
    filled = column.fill_null(pa.scalar(0, pa.int64()).cast(column.type))
    return _Varying(index, has_nulls, filled.to_numpy(zero_copy_only=False))
