"""What a table of Delta and one of Iceberg have in common as sources, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.connectors.lakes.cases import Case, DeltaCase, IcebergCase
from tests.connectors.lakes.queries import all_read


@pytest.fixture(params=["deltalake", "pyiceberg"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    pytest.importorskip(request.param, reason="needs the extra of the table")
    return DeltaCase(tmp_path) if request.param == "deltalake" else IcebergCase(tmp_path)


def test_a_table_is_read_as_it_is_and_then_what_comes(case: Case) -> None:
    case.add(0, 1, 2, parts=("x", "y", "a b/%"))
    case.add(3, 4)
    case.delete("value = 3")
    query = case.start()
    query.processAllAvailable()
    assert case.sink.values() == [0, 1, 2, 4]
    case.add(5, 6)
    query.processAllAvailable()
    case.add(7)
    all_read(query)
    assert case.sink.values() == [0, 1, 2, 4, 5, 6, 7]
    # Behind the newest: versions are counted from 0, sequence numbers from 1.
    assert case.at == (5 if isinstance(case, DeltaCase) else 6, 0)
    case.add(8)
    case.read()
    assert case.sink.values() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert {(row["value"], row["p"]) for row in case.sink.rows} >= {(2, "a b/%"), (8, "z")}


@pytest.mark.parametrize(("start_at", "values"), [(1, [1, 2]), (2, [2]), (None, [])])
def test_a_query_may_begin_at_a_state(case: Case, start_at: int | None, values: list[int]) -> None:
    for value in range(3):
        case.add(value)
    begins = "latest" if start_at is None else case.states()[start_at][0]
    query = case.start(**{case.begins: begins})
    query.processAllAvailable()
    assert case.sink.values() == values
    case.add(3)
    all_read(query)
    assert case.sink.values() == [*values, 3]


def test_a_query_may_begin_at_a_time(case: Case) -> None:
    case.add(0)
    case.add(1)
    when = max(made for _, made in case.states())
    case.read(startingTimestamp=f"{pa.scalar(when, pa.timestamp('ms')).as_py().isoformat()}Z")
    assert case.sink.values()[-1] == 1
