"""Results that are DataFrames, as Arrow.

A user's function returns a small frame for each key, and to convert a frame takes as long whether
it is small or large. So frames that look alike are put together before. What looks alike converts
alike: their columns have the same names and types, and what are objects is of one kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.functions.custom_state.pandas_conversion import PandasConversion

if TYPE_CHECKING:
    import pandas as pd

_OF_ONE_KIND: Final = {"string", "bytes", "date", "decimal", "boolean", "datetime", "empty"}
"""What ``pandas.api.types.infer_dtype`` says of objects."""


class FrameResults:
    """Those of a batch."""

    def __init__(self, convert: PandasConversion) -> None:
        self._convert = convert
        self._frames: list[pd.DataFrame] = []

    def add(self, frames: Iterable[pd.DataFrame]) -> None:
        """Take what the user returns; a frame without rows says nothing."""
        self._frames += [frame for frame in frames if len(frame)]

    def made(self) -> Iterator[pa.RecordBatch]:
        """All that was taken so far."""
        frames, self._frames = self._frames, []
        for run in _runs(frames):
            for frame in _together(run):
                yield self._convert.batch(frame)


def _runs(frames: list[pd.DataFrame]) -> Iterator[list[pd.DataFrame]]:
    """Frames one behind the other with the same columns."""
    run: list[pd.DataFrame] = []
    for frame in frames:
        if run and not _is_alike(run[0], frame):
            yield run
            run = []
        run.append(frame)
    if run:
        yield run


def _is_alike(frame: pd.DataFrame, other: pd.DataFrame) -> bool:
    return frame.columns.equals(other.columns) and _types(frame) == _types(other)


def _types(frame: pd.DataFrame) -> list[Any]:
    """As ``frame.dtypes``, which makes a Series of them and takes ten times as long."""
    types: list[Any] = frame._mgr.get_dtypes().tolist()
    return types


def _together(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """The frames as one, if their objects are of one kind."""
    import pandas as pd

    if len(frames) == 1:
        return frames
    whole = pd.concat(frames, ignore_index=True)
    objects = [i for i, dtype in enumerate(whole.dtypes) if pd.api.types.is_object_dtype(dtype)]
    kinds = {pd.api.types.infer_dtype(whole.iloc[:, i], skipna=True) for i in objects}
    return [whole] if kinds <= _OF_ONE_KIND else frames
