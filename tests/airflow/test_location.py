"""Checkpoint locations, and the connections inside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_continuous.assets.uris import asset_uri, query_asset
from airflow_provider_continuous.compat import RELEASE
from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StopContinuousQueryOperator
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.tasks.query_note import location_of
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError

ACCOUNT = "account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("text", "conn_id", "expected"),
    [
        ("/data/a@b/c", None, CheckpointLocation("/data/a@b/c")),
        (" /data/c ", None, CheckpointLocation("/data/c")),
        ("file:///data/c", None, CheckpointLocation("file:///data/c")),
        ("s3://bucket/c", None, CheckpointLocation("s3://bucket/c")),
        ("s3://store@bucket/c", None, CheckpointLocation("s3://bucket/c", "store")),
        ("s3://bucket/c", "store", CheckpointLocation("s3://bucket/c", "store")),
        ("s3://store@bucket/c", "store", CheckpointLocation("s3://bucket/c", "store")),
        (ObjectStoragePath("memory://store@c"), None, CheckpointLocation("memory:///c", "store")),
        ("abfs://store@box/c", None, CheckpointLocation("abfs://box/c", "store")),
        (f"abfss://box@{ACCOUNT}/c", None, CheckpointLocation(f"abfss://box@{ACCOUNT}/c")),
        (
            f"abfss://box@{ACCOUNT}/c",
            "store",
            CheckpointLocation(f"abfss://box@{ACCOUNT}/c", "store"),
        ),
        (
            f"abfss://store@box@{ACCOUNT}/c",
            None,
            CheckpointLocation(f"abfss://box@{ACCOUNT}/c", "store"),
        ),
    ],
)
def test_parse(text: object, conn_id: str | None, expected: CheckpointLocation) -> None:
    assert CheckpointLocation.parse(text, conn_id) == expected
    assert CheckpointLocation.parse(expected.text) == expected


@pytest.mark.parametrize("text", ["s3://[x", "s3://a]b/c", "/tmp/\0x", "/tmp/\ud800"])
def test_what_is_no_path_and_no_url_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no path and no URL"):
        CheckpointLocation.parse(text)


def test_a_name_is_a_folder_in_the_checkpoint_root(connection: Callable[..., None]) -> None:
    extra = {"checkpoint-root": "s3://store@bucket/checkpoints/"}
    connection("continuous_default", "continuous", extra=extra)

    expected = CheckpointLocation("s3://bucket/checkpoints/orders", "store")
    assert CheckpointLocation.parse(" orders ") == expected
    assert CheckpointLocation.parse("/data/c") == CheckpointLocation("/data/c")
    connection("continuous_default", "continuous", extra={"checkpoint-root": "/data/"})
    document = {"source": {"format": "rate"}, "sink": {"format": "noop"}, "name": "n"}
    located = ContinuousQueryHook().specification({**document, "checkpoint_location": "orders"})
    assert located["checkpoint_location"] == "/data/orders"


@pytest.mark.parametrize(
    ("text", "conn_id", "problem"),
    [
        ("", None, "is empty"),
        ("None", None, "is empty"),
        (None, None, "is empty"),
        ("s3://one@bucket/c", "other", "'one' and storage_conn_id names 'other'"),
        ("checkpoints/orders", None, "is relative"),
        ("orders", None, "is relative"),
    ],
)
def test_what_cannot_be_a_location(text: object, conn_id: str | None, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        CheckpointLocation.parse(text, conn_id)


def test_a_connection_that_no_provider_opens_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's "No filesystem registered" would be tried again, and not say what is missing."""
    monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", dict)
    with pytest.raises(ConfigError, match=r"'store' cannot open s3.*providers-amazon\[s3fs\]"):
        CheckpointHook("s3://store@bucket/c").status()


@pytest.fixture
def roots(connection: Callable[..., None]) -> None:
    connection("continuous_default", "continuous", extra={"checkpoint-root": "/default/"})
    connection("lake", "continuous", extra={"checkpoint-root": "s3://store@bucket/lake"})
    connection("bare", "continuous")
    connection("store", "aws", login="an id", password="a key")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", CheckpointLocation("/default/orders")),
        ("lake:orders", CheckpointLocation("s3://bucket/lake/orders", "store")),
        ("lake:*", CheckpointLocation("s3://bucket/lake/*", "store")),
        ("bare:orders", CheckpointLocation("/default/orders")),
        ("continuous_default:orders", CheckpointLocation("/default/orders")),
        ("/data/lake:orders", CheckpointLocation("/data/lake:orders")),
    ],
)
def test_a_name_has_one_place(roots: None, text: str, expected: CheckpointLocation) -> None:
    assert CheckpointLocation.parse(text) == expected
    document = {"source": {"format": "rate"}, "sink": {"format": "noop"}, "name": "n"}
    if "*" not in text:
        located = ContinuousQueryHook().specification({**document, "checkpoint_location": text})
        assert CheckpointLocation.parse(located["checkpoint_location"]) == expected


@pytest.mark.parametrize(
    ("conn_id", "name", "expected"),
    [
        ("lake", "orders", "s3://store@bucket/lake/orders"),
        ("bare", "orders", "/default/orders"),
        ("lake", "bare:orders", "/default/orders"),
        ("lake", None, "s3://store@bucket/lake/n"),
        ("bare", None, "/default/n"),
    ],
)
def test_a_name_is_looked_for_with_the_connection_of_its_query(
    roots: None, conn_id: str, name: str | None, expected: str
) -> None:
    document = {"source": {"format": "rate"}, "sink": {"format": "noop"}, "name": "n"}
    hook = ContinuousQueryHook(conn_id)

    located = hook.specification(document, checkpoint_location=name)

    assert located["checkpoint_location"] == expected
    whole = CheckpointLocation.parse(expected)
    assert hook._checkpoint(name or "n").location == whole


def test_a_connection_that_is_not_there_is_named(roots: None) -> None:
    with pytest.raises(ConfigError, match="There is no connection 'laek'"):
        CheckpointLocation.parse("laek:orders")


def test_who_ends_a_query_finds_it_by_its_name_with_its_connection(
    connection: Callable[..., None], tmp_path: Path, context: Any
) -> None:
    """And so do the task's links, its lineage and what is told when it fails."""
    connection("continuous_default", "continuous", extra={"checkpoint-root": "/nowhere"})
    connection("lake", "continuous", extra={"checkpoint-root": str(tmp_path)})
    Lease.acquire(Checkpoint(str(tmp_path / "orders")), run_id="run-a").release(QueryState.STOPPED)
    for given in ({"checkpoint_location": "lake:orders"}, _by_connection("lake")):
        end = StopContinuousQueryOperator(task_id="end", deferrable=False, **given)
        assert CheckpointHook(str(location_of(end))).location.url == str(tmp_path / "orders")

        assert end.execute(context)["run_id"] == "run-a"


def _by_connection(conn_id: str) -> dict[str, str]:
    return {"checkpoint_location": "orders", "continuous_conn_id": conn_id}


def test_sensors_triggers_and_notifiers_take_the_same_names(
    connection: Callable[..., None], tmp_path: Path, context: Any
) -> None:
    connection("lake", "continuous", extra={"checkpoint-root": str(tmp_path)})
    lease = Lease.acquire(Checkpoint(str(tmp_path / "orders")), run_id="run-a")
    lease.release(QueryState.STOPPED)

    trigger = QueryEndedTrigger("lake:orders", "run-a", deadline=time.time() + 120)
    assert trigger.wait()["run_id"] == "run-a"
    sensor = EpochCommittedSensor(task_id="wait", checkpoint_location="lake:orders", epoch=1)
    assert sensor.make_trigger(context).own_hook.location.url == str(tmp_path / "orders")
    assert asset_uri("lake:orders") == "continuous://connection/lake/orders"
    if RELEASE >= (3, 3):
        assert query_asset("lake:orders", every=1).uri == asset_uri("lake:orders")
    assert asset_uri("orders") != asset_uri("lake:orders")


@pytest.mark.parametrize("conn_id", ["team/lake", "team:lake"])
def test_an_id_that_looks_like_a_part_of_a_url(
    roots: None, connection: Callable[..., None], conn_id: str
) -> None:
    connection(conn_id, "continuous", extra={"checkpoint-root": "/lake"})
    hook = ContinuousQueryHook(conn_id)

    assert hook._checkpoint("orders").location == CheckpointLocation("/lake/orders")
    document = {"source": {"format": "rate"}, "sink": {"format": "noop"}, "name": "n"}
    located = hook.specification(document, checkpoint_location="orders")
    assert located["checkpoint_location"] == "/lake/orders"


@pytest.mark.parametrize("conn_id", ["continuous_default", "lake"])
@pytest.mark.parametrize("text", ["None", " None ", "lake:None"])
def test_what_a_template_makes_of_nothing_is_no_name(roots: None, conn_id: str, text: str) -> None:
    hook = ContinuousQueryHook(conn_id)
    document = {"source": {"format": "rate"}, "sink": {"format": "noop"}, "name": "n"}

    for use in (
        lambda: hook.specification(document, checkpoint_location=text),
        lambda: hook.status(text),
        lambda: hook.code_folder(text, "n"),
    ):
        with pytest.raises(ConfigError, match="is empty"):
            use()


def test_only_a_connection_of_queries_has_a_root(roots: None) -> None:
    with pytest.raises(ConfigError, match=r"'store'.* is of type 'aws', and not 'continuous'"):
        CheckpointLocation.parse("store:orders")


def test_code_lies_beside_the_logs_of_any_location(roots: None, tmp_path: Path) -> None:
    hook = ContinuousQueryHook()
    told = hook.code_folder(ObjectStoragePath(f"file://{tmp_path}/c"), None)
    assert told == hook.code_folder(tmp_path / "c", None)
    assert told.parent == tmp_path / "c.logs" / "code"
