"""What is found out of an epoch's rows before the transaction: the last of each key, what goes."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.sinks.databases.rows import Mode, Rows
from engine.sinks.sqlalchemy.prepared import last_of_each_key, prepare
from tests.connectors.databases.queries import CHANGES, changes

UTC = datetime.timezone.utc
AT = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)


def tables(*batches: pa.RecordBatch) -> list[pa.Table]:
    """One of each task."""
    return [pa.Table.from_batches([each]) for each in batches]


def test_the_last_row_of_a_key_counts_in_the_order_of_tasks_and_rows() -> None:
    rows = Rows.in_mode(Mode(("id",), "gone"), "sink", CHANGES)
    first = changes((3, "a", False), (1, "a", False), (3, "b", False), (2, "a", True))
    second = changes((1, "c", True), (2, "c", False), (4, "a", False), (4, "b", True))
    found = prepare(tables(first, second), rows, has_zones=True)
    assert [each.to_pylist() for each in found.gone] == [[{"id": 1}, {"id": 4}]]
    (kept,) = found.kept
    assert [(row["id"], row["name"]) for row in kept.to_pylist()] == [(3, "b"), (2, "c")]


def test_a_row_stays_where_it_is_not_known_whether_it_goes() -> None:
    rows = Rows.in_mode(Mode(("id",), "gone"), "sink", CHANGES)
    found = prepare(tables(changes((1, "a", None))), rows, has_zones=True)  # type: ignore[arg-type]
    assert [each.num_rows for each in (*found.gone, *found.kept)] == [0, 1]


def test_rows_that_are_appended_are_all_there() -> None:
    rows = Rows.in_mode(Mode(), "sink", CHANGES)
    given = tables(changes((1, "a", False), (1, "a", False)), changes((1, "a", True)))
    found = prepare(given, rows, has_zones=True)
    assert (found.gone, list(found.kept)) == ((), given)


@pytest.mark.parametrize(
    ("dtype", "one", "other"),
    [
        (pa.bool_(), True, False), (pa.int8(), -1, 1), (pa.int64(), 2**63 - 1, -(2**63)),
        (pa.decimal128(38, 2), decimal.Decimal("1.00"), decimal.Decimal("-1.00")),
        (pa.string(), "é", "e\u0301"), (pa.string(), "a", "A"), (pa.string(), "", "a\0"),
        (pa.date32(), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
        (pa.timestamp("us", "UTC"), AT.replace(tzinfo=UTC), AT.replace(1904, tzinfo=UTC)),
        (pa.timestamp("us"), AT, AT.replace(microsecond=999998)), (pa.string(), "a", None),
    ],
)  # fmt: skip
def test_keys_of_every_type_are_told_apart(dtype: pa.DataType, one: Any, other: Any) -> None:
    def keys_of(*values: Any) -> pa.Table:
        columns = [pa.array(values, dtype), pa.array(range(len(values)))]
        return pa.table(columns, ["row", "0"])  # names that are as good as any

    several = pa.concat_tables([keys_of(one, other), keys_of(one), keys_of(other, other, one)])
    assert last_of_each_key(several, ["row"]).column("row").to_pylist() == [other, one]
    assert last_of_each_key(several, ["0", "row"]).num_rows == 4
    assert last_of_each_key(several.slice(0, 0), ["row"]).num_rows == 0


def test_times_with_a_zone_are_in_utc_where_the_database_has_none() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("gone", pa.bool_())])
    rows = Rows.in_mode(Mode(("at",), "gone"), "sink", schema)
    later = AT.replace(tzinfo=UTC) + datetime.timedelta(days=1)
    batch = pa.record_batch([pa.array([later, AT.replace(tzinfo=UTC)]), [True, False]], schema)
    found = prepare(tables(batch), rows, has_zones=False)
    assert found.gone[0].to_pylist() == [{"at": later.replace(tzinfo=None)}]
    assert found.kept[0].column("at").to_pylist() == [AT]
