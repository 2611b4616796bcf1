"""DataFrames of groups, and back: against those of PySpark's own serializers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas import serializers

from engine.functions.custom_state.frame_results import FrameResults
from engine.functions.custom_state.frames import Frames
from engine.functions.custom_state.pandas_conversion import PandasConversion
from engine.functions.invoke import zoned
from engine.pipeline.pipeline import FunctionSession
from tests.custom_states import arrow, pickled

ZONE = "America/New_York"
SESSION = FunctionSession({"spark.sql.session.timeZone": ZONE})
T1 = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "é", "", "z"]),
    "tiny": (pa.int8(), [1, -2, 3, 4]),
    "number": (pa.int32(), [1, 2, 3, 4]),
    "long one": (pa.int64(), [2**53 + 1, 1, 2, 3]),
    "single": (pa.float32(), [0.1, 1.5, float("nan"), None]),
    "float": (pa.float64(), [0.1, 1.5, None, 2.0]),
    "flag": (pa.bool_(), [True, False, True, False]),
    "class": (pa.timestamp("us", "UTC"), [T1, None, T1, T1]),
    "local": (pa.timestamp("us"), [T1.replace(tzinfo=None)] * 4),
    "day": (pa.date32(), [date(2024, 1, 2), None, date(1, 1, 1), date(9999, 1, 1)]),
    "money": (pa.decimal128(10, 2), [Decimal("1.20"), None, Decimal(3), Decimal(4)]),
    "raw": (pa.binary(), [b"a", None, b"", b"c"]),
    "items": (pa.list_(pa.int32()), [[1, None], [2], None, []]),
    "parts": (pa.struct([("x", pa.int32())]), [{"x": 1}, {"x": None}, None, {"x": 4}]),
    "by": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None, [("b", None)]]),
}
KEYS = ["a", "a", "b", "c"]
STARTS = np.array([0, 2, 3, 4])


def rows(names: Sequence[str] = tuple(COLUMNS)) -> pa.RecordBatch:
    fields = [pa.field("k", pa.string()), *(pa.field(name, COLUMNS[name][0]) for name in names)]
    values = [KEYS, *(COLUMNS[name][1] for name in names)]
    schema = zoned(pa.schema(fields), SESSION)
    arrays = [pa.array(each, field.type) for each, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def frames_of(batch: pa.RecordBatch, *, of_tuples: bool, rows_max: int = 100) -> list[Any]:
    convert = PandasConversion(pickled("f", len, "k string"), SESSION, arrow("k string"))
    key = pa.schema([batch.schema.field(0)])
    frames = Frames(convert, batch.schema, key, of_tuples=of_tuples, rows_max=rows_max)
    return [list(group) for group in frames.groups(batch.columns, STARTS)]


def of_pyspark(batch: pa.RecordBatch) -> Iterator[list[pd.DataFrame]]:
    """What the worker of ``transformWithStateInPandas`` makes of a batch."""
    serializer: Any = serializers.TransformWithStateInPandasSerializer(
        timezone=ZONE,
        safecheck=False,
        assign_cols_by_name=True,
        prefer_int_ext_dtype=False,
        arrow_max_records_per_batch=100,
        arrow_max_bytes_per_batch=2**31 - 1,
        int_to_decimal_coercion_enabled=False,
    )
    serializer.key_offsets = [0]
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    stream.seek(0)
    for _, key, group in serializer.load_stream(stream):
        if key is not None:
            yield [frame for _, frame in group]


def test_frames_of_named_tuples_are_those_of_pyspark() -> None:
    found = frames_of(rows(), of_tuples=True)
    for ours, theirs in zip(found, of_pyspark(rows()), strict=True):
        for frame, other in zip(ours, theirs, strict=True):
            pd.testing.assert_frame_equal(frame, other)


def test_frames_are_those_of_pyspark_for_each_key() -> None:
    batch = rows()
    found = frames_of(batch, of_tuples=False)
    convert = PandasConversion(pickled("f", len, "k string"), SESSION, arrow("k string"))
    for (frame,), start, end in zip(found, STARTS, STARTS[1:], strict=False):
        part = pa.RecordBatch.from_arrays(
            [pa.concat_arrays([c.slice(start, end - start)]) for c in batch.columns],
            schema=batch.schema,
        )
        pd.testing.assert_frame_equal(frame, pd.concat(convert.series(part), axis=1))


@pytest.mark.parametrize("of_tuples", [False, True])
def test_nulls_of_one_key_do_not_change_the_types_of_another(of_tuples: bool) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int32()), ("b", pa.bool_())])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(KEYS),
            pa.array([1, None, 3, 4], pa.int32()),
            pa.array([None, True, False, True]),
        ],
        schema=schema,
    )
    (first,), (second,), _ = frames_of(batch, of_tuples=of_tuples)
    assert [str(dtype) for dtype in first.dtypes] == ["object", "float64", "object"]
    whole = "int64" if of_tuples else "int32"
    assert [str(dtype) for dtype in second.dtypes] == ["object", whole, "bool"]
    assert second["n"].tolist() == [3]


def test_a_frame_is_the_users_own() -> None:
    batch = rows(["number", "text"])
    (first,), (second,), _ = frames_of(batch, of_tuples=False)
    first["number"] *= 10  # without a warning
    first.loc[0, "text"] = "changed"
    first["more"] = 1
    assert second["number"].tolist() == [3]
    assert list(second.index) == [0]


def test_large_groups_come_in_parts() -> None:
    parts = frames_of(rows(["number"]), of_tuples=True, rows_max=1)
    assert [[frame["number"].tolist() for frame in group] for group in parts] == [
        [[1], [2]],
        [[3]],
        [[4]],
    ]


_RETURNED = "s string, n long, f double, d date, t timestamp"
_ROWS = st.fixed_dictionaries(
    {
        "s": st.one_of(st.none(), st.text(max_size=3), st.integers(0, 9)),
        "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "f": st.one_of(st.none(), st.floats(), st.integers(0, 9)),
        "d": st.one_of(st.none(), st.dates()),
        "t": st.one_of(st.none(), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(_ROWS, min_size=1, max_size=3), max_size=5))
def test_results_together_are_those_one_by_one(groups: list[list[dict[str, Any]]]) -> None:
    convert = PandasConversion(pickled("f", len, _RETURNED), SESSION, arrow(_RETURNED))
    frames = [pd.DataFrame(group) for group in groups]

    def alone() -> Iterator[dict[str, Any]]:
        for frame in frames:
            yield from convert.batch(frame).to_pylist()

    results = FrameResults(convert)
    results.add(frames)
    try:
        expected: Any = list(alone())
    except Exception as error:  # as PySpark's are
        with pytest.raises(type(error)):
            list(results.made())
        return
    found = [row for batch in results.made() for row in batch.to_pylist()]
    np.testing.assert_equal(found, expected)


def test_a_result_without_columns_is_none() -> None:
    results = FrameResults(PandasConversion(pickled("f", len, "n long"), SESSION, arrow("n long")))
    results.add([pd.DataFrame(), pd.DataFrame({"n": [1]}), pd.DataFrame({"n": []})])
    assert [batch.to_pydict() for batch in results.made()] == [{"n": [1]}]
