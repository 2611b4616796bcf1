"""A connection whose password is changed while tasks wait: the triggerer runs for months."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_continuous.connections import location
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing import listing
from airflow_provider_continuous.triggers import start
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry


class Vault(MemoryFileSystem):  # type: ignore[misc]
    """Storage in memory that reads only with the key of now."""

    protocol = "changing-vault"
    key_of_now: str | None = "first"

    def __init__(self, key: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.key = key

    def info(self, path: str, **more: Any) -> Any:
        self._check()
        return super().info(path, **more)

    def ls(self, path: str, *args: Any, **more: Any) -> Any:
        self._check()
        return super().ls(path, *args, **more)

    def _open(self, path: str, *args: Any, **more: Any) -> Any:
        self._check()
        return super()._open(path, *args, **more)

    def _check(self) -> None:
        if self.key != Vault.key_of_now:
            raise PermissionError("the key is of yesterday")

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("changing-vault://", "memory://")))


def commit(epoch: int) -> None:
    checkpoint = Checkpoint("changing-vault://orders", {"key": Vault.key_of_now})
    checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
    checkpoint.commits.add(epoch, CommitEntry())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """Which connections were looked up; they have the key of now."""
    found: list[str | None] = []

    def opened(conn_id: str | None, _: Any) -> Vault:
        found.append(conn_id)
        return Vault(key=Vault.key_of_now)

    fsspec.register_implementation("changing-vault", Vault, clobber=True)
    monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", lambda: {Vault.protocol: opened})
    monkeypatch.setattr(Vault, "key_of_now", "first")
    monkeypatch.setattr(location, "_opened", {})
    commit(4)
    yield found
    MemoryFileSystem.store.clear()


def test_who_waits_goes_on_with_the_new_one(
    asked: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = EpochCommittedTrigger(
        "changing-vault://warehouse@orders", 5, wait_for_restart=True, poll_interval_s=0.01
    )
    assert trigger.observe() is None
    monkeypatch.setattr(Vault, "key_of_now", "second")
    monkeypatch.setattr(location, "KNOWN_FOR_S", 0.0)
    assert trigger.observe() is None, "it is borne"
    commit(5)

    event = trigger.observe()

    assert event is not None
    assert event["outcome"] == "committed"


def test_who_waits_for_a_start_goes_on_with_the_new_one(
    asked: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission may be queued for hours; its note lies beside the logs."""
    monkeypatch.setattr(start, "DRIVER_EVERY_S", 0.0)
    monkeypatch.setattr(location, "KNOWN_FOR_S", 0.0)
    trigger = start.SubmissionTrigger(
        "changing-vault://warehouse@orders",
        number=1,
        previous_run_id=None,
        continuous_conn_id="continuous_default",
    )
    assert trigger.observe() is not None, "nobody has noted that submission"
    monkeypatch.setattr(Vault, "key_of_now", "second")
    assert trigger.observe() is None, "it is borne"

    event = trigger.observe()

    assert event is not None
    assert event["outcome"] == "moved"


def test_a_page_has_the_new_one(asked: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    where = "changing-vault://warehouse@orders"
    monkeypatch.setattr(listing, "FRESH_S", 0.0)
    monkeypatch.setattr(location, "KNOWN_FOR_S", 0.0)
    assert where in listing.QueryListing().at([where]).queries
    monkeypatch.setattr(Vault, "key_of_now", "second")

    first = listing.QueryListing().at([where])
    second = listing.QueryListing().at([where])

    assert where in first.errors
    assert (list(second.queries), second.errors) == ([where], {})


def test_a_connection_is_looked_up_once(
    asked: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at hundreds of checkpoints every two seconds; fsspec keeps each file system."""
    for _ in range(5):
        CheckpointHook("changing-vault://warehouse@orders").committed_epoch()
        CheckpointHook("changing-vault://other@orders").committed_epoch()

    assert asked == ["warehouse", "other"]
    trigger = EpochCommittedTrigger("changing-vault://warehouse@orders", 5, wait_for_restart=True)
    monkeypatch.setattr(Vault, "key_of_now", "second")
    for _ in range(5):
        assert trigger.observe() is None
    assert asked == ["warehouse", "other"], "it was, a moment ago"
