"""Pins on the page of a query: each is a copy of an epoch's entries, and those may be long."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_continuous.plugins.details import query_details
from airflow_provider_continuous.view.known import KnownQuery
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.storage.local_storage import LocalStorage
from tests.airflow.live_checkpoint import LiveCheckpoint

LONG = {"t": {str(each): each for each in range(100_000)}}


@pytest.fixture
def pinned(live: LiveCheckpoint) -> LiveCheckpoint:
    """Ten long epochs, each with a pin, and a short one."""
    for epoch in range(10):
        live.checkpoint.offsets.add(epoch, OffsetEntry((LONG,)))
        live.checkpoint.commits.add(epoch, CommitEntry())
        live.checkpoint.pin(f"long-{9 - epoch}", epoch)
    live.commit(10)
    live.checkpoint.pin("short", 10)
    return live


def test_long_pins_are_not_read_for_the_page(
    pinned: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, int] = {}

    def counted(asked: Any) -> Any:
        def counting(storage: LocalStorage, name: str, *more: Any) -> bytes:
            data: bytes = asked(storage, name, *more)
            read[name] = read.get(name, 0) + len(data)
            return data

        return counting

    for name in ("read", "beginning"):
        monkeypatch.setattr(LocalStorage, name, counted(getattr(LocalStorage, name)))

    told = query_details(KnownQuery(pinned.location), with_records=False)["pins"]

    pins = {name: count for name, count in read.items() if name.startswith("pins/")}
    assert (len(pins), sum(pins.values()) < 5_000) == (11, True), pins
    assert told == [pin.to_dict() for pin in pinned.checkpoint.pins()]
    assert [(pin["name"], pin["epoch"]) for pin in told[:2]] == [("long-9", 0), ("long-8", 1)]
