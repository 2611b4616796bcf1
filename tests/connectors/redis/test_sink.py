"""What the Redis sink does with an epoch, whatever became of it before."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.sink_context import SinkContext
from engine.clients import redis as client_module
from engine.errors import (
    ConfigError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.query.binding import bind_writer
from engine.sinks.contract import DriverSink, WriterContext
from engine.sinks.redis import task_writer
from engine.sinks.redis.data_source import RedisSink, RedisWriter
from engine.sinks.redis.task_writer import StagedRows, StagingWriter
from tests.servers.redis import RedisServer, running_redis

COLUMNS = StructType().add("id", "long").add("name", "string").add("raw", "binary")


def sink(server: RedisServer, schema: StructType = COLUMNS, **options: Any) -> RedisWriter:
    given = {"url": server.url, "stream": "out", **options}
    return RedisSink(given).streamWriter(schema, overwrite=False)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"n{each}" for each in ids], pa.string()),
            "raw": pa.array([b"\xff" if each % 2 else None for each in ids], pa.binary()),
        }
    )


class Run:
    """One generation of a query, with two tasks."""

    def __init__(self, server: RedisServer, generation: int, timeline: int = 0, **options: Any):
        self.driver = sink(server, **options)
        self.driver.bind(SinkContext("q", f"r{generation}", generation, timeline))
        self.tasks: list[StagingWriter] = []
        for task in range(2):
            writer = sink(server, **options).taskWriter()
            writer.open(WriterContext("q", f"r{generation}", generation, timeline, task, 2))
            self.tasks.append(writer)

    def stage(self, epoch: int, *ids: int) -> list[StagedRows | None]:
        """The first one to the first task, the others to the second."""
        return [
            self.tasks[0].write(epoch, iter([rows(*ids[:1])] if ids else [])),
            self.tasks[1].write(epoch, iter([rows(each) for each in ids[1:]])),
        ]

    def commit(self, epoch: int, *ids: int) -> None:
        self.driver.commit(self.stage(epoch, *ids), epoch)


def ids(client: Any) -> list[int]:
    return [int(entry[b"id"]) for _, entry in client.xrange("out")]


def test_an_epoch_is_seen_as_a_whole_and_once(server: RedisServer, client: Any) -> None:
    run = Run(server, 0)
    staged = run.stage(0, 1, 2, 3)
    assert ids(client) == []
    for _ in range(2):
        run.driver.commit(staged, 0)
        assert ids(client) == [1, 2, 3]
    _, entry = client.xrange("out")[0]
    assert entry == {b"id": b"1", b"name": b"n1", b"raw": b"\xff"}
    assert client.xrange("out")[1][1] == {b"id": b"2", b"name": b"n2"}, "a NULL is no field"
    run.commit(1)
    assert run.driver.latestEpoch() == 1
    assert sorted(client.keys()) == [b"continuous:q", b"out"], "nothing is left behind"


def test_another_run_finishes_what_was_staged_and_shuts_the_first_one_out(
    server: RedisServer, client: Any
) -> None:
    first = Run(server, 0)
    staged = first.stage(0, 1, 2)
    second = Run(server, 1)
    with pytest.raises(StaleRunError, match="generation 1"):
        first.driver.commit(staged, 0)
    with pytest.raises(StaleRunError, match="generation 1"):
        first.stage(1, 3)
    with pytest.raises(StaleRunError):
        first.driver.fenceTasks()
    with pytest.raises(StaleRunError):
        first.driver.bind(SinkContext("q", "r0", 0, 0))
    second.driver.commit(staged, 0)
    assert ids(client) == [1, 2]


def test_what_nobody_commits_is_removed_before_tasks_run(server: RedisServer, client: Any) -> None:
    Run(server, 0).stage(0, 1, 2)
    second = Run(server, 1)
    second.driver.fenceTasks()
    assert client.keys() == [b"continuous:q"]
    third = second.stage(0, 1, 2)
    assert 0 < client.ttl(third[0].key) <= task_writer.STAGED_S  # type: ignore[union-attr]
    second.driver.abort(third, 0)
    assert client.exists(*(each.key for each in third if each)) == 0


@pytest.mark.parametrize("task", [0, 1])
def test_an_epoch_that_was_staged_and_is_gone_is_told_and_nothing_of_it_is_seen(
    server: RedisServer, client: Any, task: int
) -> None:
    run = Run(server, 0)
    staged = run.stage(0, 1, 2, 3)
    client.delete(staged[task].key)  # type: ignore[union-attr]
    with pytest.raises(PreparedEpochLostError, match="not have what was staged of epoch 0") as lost:
        run.driver.commit(staged, 0)
    assert lost.value.done == frozenset()
    assert ids(client) == []
    assert DriverSink.of(run.driver).may_drop_prepared


def test_after_a_rewind_an_epoch_comes_again_with_other_rows(
    server: RedisServer, client: Any
) -> None:
    run = Run(server, 0)
    for epoch in range(3):
        run.commit(epoch, epoch)
    again = Run(server, 2, timeline=1)
    assert again.driver.latestEpoch() is None
    again.commit(1, 10)
    assert again.driver.latestEpoch() == 1
    assert ids(client) == [0, 1, 2, 10]


def test_a_server_that_forgets_which_run_it_is_does_not_end_it(
    server: RedisServer, client: Any
) -> None:
    run = Run(server, 3)
    staged = run.stage(0, 1)
    client.hset("continuous:q", "generation", 2)  # what a replica had
    with pytest.raises(SinkUnavailableError, match="has forgotten"):
        run.stage(1, 2)
    with pytest.raises(SinkUnavailableError, match="has forgotten"):
        run.driver.fenceTasks()
    run.driver.commit(staged, 0)
    assert ids(client) == [1]


@pytest.mark.parametrize("lost", ["all", "the newest"])
def test_epochs_that_redis_has_lost_end_the_query(
    server: RedisServer, client: Any, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(server, 0)
    for epoch in range(3):
        run.commit(epoch, epoch)
    if lost == "all":
        client.flushall()
        with pytest.raises(SinkUnavailableError, match="has forgotten"):
            run.stage(3, 3)
    else:
        client.hset("continuous:q", "epoch", 1)
    run = Run(server, 1)
    staged = run.stage(3, 3)
    known = "it knows of none" if lost == "all" else "its last is 1"
    with pytest.raises(SinkCommitRejectedError, match=f"lost epochs .* epoch 3, and {known}"):
        run.driver.commit(staged, 3)
    assert 3 not in ids(client)
    run = Run(server, 2, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        run.driver.commit(staged, 3)
    assert "has lost epochs" in caplog.text
    assert ids(client)[-1] == 3


def test_it_is_killed_with_everything_it_has_answered_for(server: RedisServer, client: Any) -> None:
    run = Run(server, 0)
    run.commit(0, 1, 2)
    staged = run.stage(1, 3, 4)
    server.process.kill()
    with pytest.raises(SinkCommitUnknownError, match="does not answer"):
        run.driver.commit(staged, 1)
    with pytest.raises(SinkUnavailableError):
        run.driver.latestEpoch()
    server.start()
    run.driver.commit(staged, 1)
    assert ids(client) == [1, 2, 3, 4]


def test_a_server_that_hangs_is_given_up_and_a_late_commit_does_no_harm(
    server: RedisServer, client: Any
) -> None:
    first = Run(server, 0)
    staged = first.stage(0, 1, 2)
    (connection,) = first.driver._client.connection_pool._available_connections
    assert connection.socket_timeout == client_module.ANSWER_S
    connection._sock.settimeout(0.3)  # from now on: one that is busy may take as long
    server.process.suspend()
    with pytest.raises(SinkCommitUnknownError):
        first.driver.commit(staged, 0)
    server.process.resume()
    Run(server, 1).driver.commit(staged, 0)
    assert ids(client) == [1, 2]


def test_a_full_server_is_an_outage_and_changes_nothing(server: RedisServer, client: Any) -> None:
    run = Run(server, 0)
    staged = run.stage(0, 1, 2)
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(SinkUnavailableError, match=r"OOM|used memory"):
            run.stage(1, 3)
        with pytest.raises((SinkUnavailableError, SinkCommitUnknownError), match=r"OOM|memory"):
            run.driver.commit(staged, 0)
    finally:
        client.config_set("maxmemory", 0)
    assert ids(client) == []
    run.driver.commit(staged, 0)
    assert ids(client) == [1, 2]


def test_a_task_reads_no_more_than_its_share(server: RedisServer) -> None:
    run = Run(server, 0, maxRowsPerEpoch="4")
    (task, _) = run.tasks
    seen: list[bool] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for each in range(3):
            seen.append(task.full())
            yield rows(each)
        seen.append(task.full())

    task.write(0, batches())
    task.write(1, iter([]))
    assert seen == [False, False, True, True]
    assert not task.full()


def test_ten_thousand_rows_in_batches_of_any_size(server: RedisServer, client: Any) -> None:
    run = Run(server, 0, maxLength="1000")
    staged = [run.tasks[0].write(0, iter([rows(*range(9_000)), rows(*range(9_000, 10_000))])), None]
    run.driver.commit(staged, 0)
    found = ids(client)
    assert found == list(range(10_000 - len(found), 10_000))
    assert 1_000 <= len(found) < 2_000


def test_an_empty_query_and_a_row_of_nothing(server: RedisServer, client: Any) -> None:
    run = Run(server, 0)
    run.driver.commit([None, None], 0)
    assert client.exists("out") == 0
    nothing = pa.RecordBatch.from_pylist([{}], rows().schema)
    with pytest.raises(SinkCommitRejectedError, match="nothing but NULLs"):
        run.tasks[0].write(1, iter([nothing]))


def test_what_cannot_be_used_is_refused_at_the_start(server: RedisServer, client: Any) -> None:
    client.set("out", "text")
    with pytest.raises(ConfigError, match=r"key out of Redis at 127.0.0.1:.* is a string"):
        sink(server).validate()
    with pytest.raises(ConfigError, match="column at is TIMESTAMP"):
        sink(server, StructType().add("at", "timestamp"))
    with pytest.raises(ConfigError, match="url cannot be used"):
        RedisSink({"url": "http://x", "stream": "out"})
    with pytest.raises(ConfigError, match="no option 'strem'"):
        RedisSink({"url": server.url, "strem": "out", "stream": "x"})
    with pytest.raises(ConfigError, match="continuous queries"):
        sink(server).write(iter([]))


def test_a_wrong_password_is_told_and_never_shown(server: RedisServer, client: Any) -> None:
    client.config_set("requirepass", "s3cret-w0rd")
    try:
        url = server.url.replace("//", "//:wr0ng-w0rd@")
        for options in ({"url": url}, {"password": "wr0ng-w0rd"}):
            writer = sink(server, **options)
            with pytest.raises(ConfigError, match="does not let this user") as error:
                writer.validate()
            bound = bind_writer(writer, "redis", "redis", {"url": url, "password": "wr0ng-w0rd"})
            for text in (str(error.value), repr(vars(writer)), bound.description):
                assert "wr0ng" not in text
        sink(server, password="s3cret-w0rd").validate()
    finally:
        client.auth("s3cret-w0rd")
        client.config_set("requirepass", "")


def test_a_server_that_may_forget_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_redis(tmp_path / "server") as server, caplog.at_level(logging.WARNING):
        sink(server).validate()
        assert caplog.text == ""
        with server.client() as client:
            client.config_set("appendfsync", "everysec")
            client.config_set("maxmemory-policy", "allkeys-lru")
        sink(server).validate()
        assert "appendfsync always" in caplog.text
        assert "allkeys-lru" in caplog.text
    with pytest.raises(ConfigError, match="cannot be reached"):
        sink(server).validate()
