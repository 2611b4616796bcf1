"""The size of a checkpoint, as the page of its query tells it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from airflow_provider_continuous.plugins import sizes
from airflow_provider_continuous.plugins.details import query_details
from airflow_provider_continuous.plugins.sizes import Sizes
from airflow_provider_continuous.view.known import KnownQuery
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointError
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.own_pages import pages_of


def test_the_state_counts(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PATIENCE_S", 60)
    live.hold()
    live.commit(0, 1)
    live.checkpoint.storage.create("state/0/0/a", b"x" * 70_000)
    live.checkpoint.storage.create("state/0/1/b", b"x" * 10_000)

    size = query_details(KnownQuery(live.location), with_records=False)["size"]

    first, *others = size["parts"]
    assert first == {"folder": "state", "files": 2, "bytes": 80_000}
    assert {"offsets", "commits", "control", ""} <= {each["folder"] for each in others}
    assert size["bytes"] == sum(each["bytes"] for each in size["parts"])
    shown = pages_of(live, monkeypatch).get("/query", params={"at": live.location}).text
    assert "state 80 kB in 2 files" in shown


def test_a_page_does_not_wait_for_it(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, measured = threading.Event(), Sizes()
    found = LocalStorage.files_below

    def slow(storage: LocalStorage, folder: str) -> Mapping[str, int]:
        assert listed.wait(60)
        return found(storage, folder)

    monkeypatch.setattr(LocalStorage, "files_below", slow)

    def opened() -> Checkpoint:
        return Checkpoint(live.location)

    assert measured.of(live.location, opened) is None
    listed.set()
    monkeypatch.setattr(sizes, "PATIENCE_S", 60)
    told = measured.of(live.location, opened)
    assert told is not None
    assert told["bytes"] > 0


def test_it_is_measured_once_a_minute(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, looks = Sizes(), []

    def opened() -> Checkpoint:
        looks.append(1)
        return Checkpoint(live.location)

    monkeypatch.setattr(sizes, "PATIENCE_S", 60)
    first = measured.of(live.location, opened)
    assert measured.of(live.location, opened) == first
    assert len(looks) == 1


def test_why_it_cannot_be_measured_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed() -> Checkpoint:
        raise CheckpointError("The bucket does not open with token=hunter22.")

    monkeypatch.setattr(sizes, "PATIENCE_S", 60)
    told = Sizes().of("s3://b/q", closed)

    assert told is not None
    assert told["bytes"] is None
    assert not told["parts"]
    assert "does not open" in told["error"]
    assert "hunter22" not in told["error"]


def test_an_error_without_words_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> Checkpoint:
        raise TimeoutError

    monkeypatch.setattr(sizes, "PATIENCE_S", 60)
    told = Sizes().of("s3://b/q", slow)

    assert told is not None
    assert (told["bytes"], told["error"]) == (None, "TimeoutError")
