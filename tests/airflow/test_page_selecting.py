"""The page of all queries: what is found, in which order, on which page."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_continuous.plugins.selecting import PAGE_SIZE, Wanted, group_of, rank, select
from engine.checkpoint.query_state import QueryState


def query(name: str, state: str = "RUNNING", dag: str = "", **more: Any) -> dict[str, Any]:
    owners = [{"dag_id": dag}] if dag else []
    return {
        "name": name,
        "checkpoint_location": f"/data/{name}",
        "state": state,
        "owners": owners,
        **more,
    }


QUERIES = [
    query("orders", "STOPPED", "shop", epoch=3, error=None),
    query("Lateness", "RUNNING", "flights", epoch=70, rows_per_second=5.0),
    query("clicks", "FAILED", "shop", epoch=9, error="the disk is full"),
    query("broken", "UNREADABLE", error="no such bucket"),
]


def names(**wanted: Any) -> list[str]:
    return [row["name"] for row in select(QUERIES, Wanted(**wanted))["rows"]]


def test_trouble_comes_first() -> None:
    assert names() == ["broken", "clicks", "Lateness", "orders"]
    assert {group_of(state) for state in ("FAILED", "LOST", "STALLED")} == {"trouble"}
    assert sorted(QueryState, key=lambda state: rank(state.value))[-2:] == ["STOPPED", "UNKNOWN"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("name", ["broken", "clicks", "Lateness", "orders"]),
        ("-name", ["orders", "Lateness", "clicks", "broken"]),
        ("epoch", ["orders", "clicks", "Lateness", "broken"]),
        ("-epoch", ["Lateness", "clicks", "orders", "broken"]),  # what is unknown stays last
        ("rows", ["Lateness", "broken", "clicks", "orders"]),
        ("dag", ["Lateness", "clicks", "orders", "broken"]),
        ("nonsense", ["broken", "clicks", "Lateness", "orders"]),
    ],
)
def test_every_column_sorts(sort: str, order: list[str]) -> None:
    assert names(sort=sort) == order


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"text": "LATE"}, ["Lateness"]),
        ({"text": "disk"}, ["clicks"]),
        ({"text": "shop"}, ["clicks", "orders"]),
        ({"text": "/data/o"}, ["orders"]),
        ({"state": "trouble"}, ["broken", "clicks"]),
        ({"state": "FAILED", "dag": "shop"}, ["clicks"]),
        ({"dag": "nobody's"}, []),
    ],
)
def test_it_is_searched_and_filtered(wanted: dict[str, str], found: list[str]) -> None:
    assert names(**wanted) == found


def test_there_are_pages() -> None:
    many = [query(f"q{number:04}") for number in range(PAGE_SIZE * 2 + 1)]

    last = select(many, Wanted(page=99))

    assert (last["page"], last["pages"], last["found"]) == (3, 3, PAGE_SIZE * 2 + 1)
    assert [row["name"] for row in last["rows"]] == [f"q{PAGE_SIZE * 2:04}"]


def test_the_address_tells_what_is_not_the_default() -> None:
    wanted = Wanted(text="a b", sort="-epoch", page=2)

    assert wanted.address() == "?text=a+b&sort=-epoch&page=2"
    assert wanted.sorted_by("epoch") == "?text=a+b&sort=epoch"
    assert Wanted(sort="epoch").sorted_by("epoch") == "?sort=-epoch"
    assert wanted.address(text="", sort="state", page=1) == "?"
