"""Checkpoint locations, and the connections inside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ConfigError


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
    ],
)
def test_parse(text: object, conn_id: str | None, expected: CheckpointLocation) -> None:
    assert CheckpointLocation.parse(text, conn_id) == expected


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
