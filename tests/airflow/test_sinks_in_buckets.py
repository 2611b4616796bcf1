"""What operators do to a files sink in a bucket, which nothing but a connection opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("moto.server", reason="needs moto[server]")

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.operators.checkpoint import (
    PinEpochOperator,
    PruneCheckpointOperator,
    RewindCheckpointOperator,
)
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.test_checkpoint_operators import record_sink, run
from tests.servers.s3 import S3
from tests.unit.test_files_sink import SCHEMA, commit, rows, writer

EPOCHS = 3
SINK = {"format": "parquet", "connection": "lake"}


@pytest.fixture
def url(s3: S3, connection: Callable[..., None], live: LiveCheckpoint) -> str:
    """The folder of the sink of a query that has ended. Its checkpoint tells it, but no secret."""
    url = f"s3://{s3.bucket()}/out"
    endpoint = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    connection("lake", "aws", login="test", password="test", extra=endpoint)
    options = {"storage.key": "test", "storage.secret": "test"}
    options["storage.client_kwargs.endpoint_url"] = s3.endpoint
    sink = writer(url, SCHEMA, "parquet", **options)
    live.hold()
    live.commit(*range(EPOCHS))
    live.end(QueryState.STOPPED)
    for epoch in range(EPOCHS):
        commit(sink, epoch, rows(epoch))
    record_sink(live, "parquet", path=url)
    return url


@pytest.mark.parametrize("with_path", [True, False])
def test_prune(with_path: bool, url: str, live: LiveCheckpoint, context: Any) -> None:
    options = {"path": url} if with_path else {}
    arguments = {"checkpoint_location": live.location, "keep_epochs": 2, "compact_sink": True}
    report = run(
        PruneCheckpointOperator,
        context,
        **arguments,
        sink={**SINK, "options": options},
        remove_orphans=True,
    )
    assert report["sink"]["path"] == url
    assert report["sink"]["removed_files"] == 0
    for other, problem in (
        ({"sink_path": "s3://other/out"}, f"writes to {url}, not to s3://other"),
        ({"sink": {**SINK, "options": {"path": "s3://other/out"}}}, "not to .*path=s3://other/out"),
        ({"sink": {"format": "delta", "options": {"path": url}}}, "not to delta"),
    ):
        with pytest.raises(AirflowFailException, match=problem):
            run(PruneCheckpointOperator, context, **arguments, **other)


def test_one_folder_is_not_that_of_many_queries(
    url: str, live: LiveCheckpoint, context: Any
) -> None:
    arguments = {"keep_epochs": 2, "remove_orphans": True}
    arguments["checkpoint_location"] = f"{live.location}*"
    report = run(PruneCheckpointOperator, context, **arguments, sink=SINK)
    assert [each["sink"]["path"] for each in report["checkpoints"]] == [url]
    with pytest.raises(AirflowFailException, match="may match many checkpoints"):
        run(PruneCheckpointOperator, context, **arguments, sink={**SINK, "options": {"Path": url}})


@pytest.mark.parametrize("with_path", [True, False])
def test_pin_and_rewind(with_path: bool, url: str, live: LiveCheckpoint, context: Any) -> None:
    arguments = {"checkpoint_location": live.location}
    sink = {**SINK, "options": {"path": url} if with_path else {}}
    pin = run(PinEpochOperator, context, **arguments, name="gold", epoch=1, sink=sink)
    assert pin["epoch"] == 1
    assert live.checkpoint.pins()[0].sink_position is not None
    other = {**SINK, "options": {"path": "s3://other/out"}}
    for operator, target in (
        (PinEpochOperator, {"name": "silver"}),
        (RewindCheckpointOperator, {"to_pin": "gold"}),
    ):
        with pytest.raises(AirflowFailException, match=r"not to .*path=s3://other/out"):
            run(operator, context, **arguments, **target, sink=other)
    report = run(RewindCheckpointOperator, context, **arguments, to_pin="gold", sink=sink)
    assert report["taken_back"]


def test_a_sink_without_positions_is_not_passed_over(live: LiveCheckpoint, context: Any) -> None:
    live.hold()
    live.commit(0)
    live.end(QueryState.STOPPED)
    kafka = {"format": "kafka", "options": {"topic": "t"}}
    with pytest.raises(AirflowFailException, match="The sink kafka has no position"):
        run(
            PinEpochOperator,
            context,
            checkpoint_location=live.location,
            name="gold",
            sink=kafka,
        )
