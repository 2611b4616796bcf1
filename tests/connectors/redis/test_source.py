"""What the Redis source reads, and what it says of entries that are gone."""

from __future__ import annotations

import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.base.connector_options import Options
from engine.clients.redis import RedisServer as RedisServerOptions
from engine.errors import (
    BadRecordError,
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
)
from engine.sources.contract import Offset
from engine.sources.redis import data_source, partition_reader
from engine.sources.redis.data_source import RedisReader, RedisSource
from engine.sources.redis.entry_ids import before, behind
from engine.sources.redis.partition_reader import RedisPartitionsReader
from tests.servers.redis import RedisServer
from tests.waiting import wait_until


def source(server: RedisServer, **options: str) -> RedisReader:
    given = {"url": server.url, "streams": "a,b", "startingOffsets": "earliest", **options}
    found = RedisSource(given)
    return found.continuousReader(found.schema())


def add(client: Any, stream: str, *ids: str) -> None:
    for each in ids:
        client.xadd(stream, {"v": each}, id=each)


def opened(
    reader: RedisReader, start: Offset, until: Offset | None = None
) -> RedisPartitionsReader:
    copy = pickle.loads(pickle.dumps(reader))
    found: RedisPartitionsReader = copy.openTogether(copy.partitions(start), until)
    return found


def read(tasks: RedisPartitionsReader, count: int) -> list[str]:
    """So many entries; and nothing more is there."""
    found: list[str] = []

    def look() -> bool:
        if (batch := tasks.read(0.005)) is not None:
            found.extend(batch[1].column("id").to_pylist())
        return len(found) >= count

    wait_until(look, f"{count} entries")
    assert tasks.read(0.0) is None
    return found


def test_an_epoch_is_run_again_beside_a_stream_that_is_new_or_gone(
    server: RedisServer, client: Any
) -> None:
    add(client, "a", "1-0")
    logged = {"a": "1-1"}
    reader = source(server)
    tasks = opened(reader, {"a": "1-1"}, logged)
    assert tasks.exhausted
    end = reader.mergeOffsets(tasks.offsets)
    assert end == logged
    assert reader.hasComeTo({**logged, "c": "7-1"}, end)
    assert not reader.hasComeTo({**logged, "b": "7-1"}, end)
    tasks.close()
    reader.stop()


def test_what_is_read_at_once_depends_on_how_large_it_is(
    server: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "FIRST_ROWS", 2)
    monkeypatch.setattr(partition_reader, "FETCH_BYTES", 100_000)
    for stream in ("a", "b"):
        for _ in range(40):
            client.xadd(stream, {"v": b"x" * 20_000})
        for _ in range(400):
            client.xadd(stream, {"v": b"x"})
    reader = source(server)
    for until in (None, dict.fromkeys("ab", f"{2**60}-0")):
        tasks = opened(reader, reader.initialOffset(), until)
        sizes: list[int] = []
        octets: list[int] = []

        def look() -> bool:
            if (batch := tasks.read(0.005)) is not None:  # noqa: B023
                sizes.append(batch[1].num_rows)  # noqa: B023
                octets.append(batch[1].nbytes)  # noqa: B023
            return sum(sizes) == 880  # noqa: B023

        wait_until(look, "all entries")
        assert max(octets) < 200_000, "large ones are few at once"
        assert max(sizes) > 20, "small ones are many"


def test_a_stream_has_caught_up_when_it_has_no_more(
    server: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "FIRST_ROWS", 4)
    monkeypatch.setattr(partition_reader, "BATCH_ROWS", 4)
    monkeypatch.setattr(partition_reader, "FETCH_ROWS", 4)
    add(client, "a", *(f"{number}-0" for number in range(1, 10)))
    add(client, "b", "1-0")
    reader = source(server)
    tasks = opened(reader, reader.initialOffset())
    seen = []
    for _ in range(9):
        if (found := tasks.read(0.0)) is not None:
            seen.append((found[0], found[1].num_rows, sorted(tasks.caught_up)))
    assert sum(rows for _, rows, _ in seen) == 10
    assert seen[0] == (0, 2, []), "what is read, and was not returned, is to come"
    assert seen[1] == (1, 1, [1])
    assert all(caught_up == [1] for _, _, caught_up in seen[2:-1])
    assert seen[-1][2] == [0, 1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("no_such_thing=1", "no_such_thing"),
        ("decode_responses=true", "has decode_responses, which is set here"),
        ("retry_on_timeout=true", "has retry_on_timeout"),
        ("protocol=3", "has protocol"),
    ],
)
def test_what_an_url_must_not_say(server: RedisServer, query: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        source(server, url=f"{server.url}?{query}")
    source(server, url=f"{server.url}?health_check_interval=10&client_name=q")


def test_a_login_is_in_one_place_and_is_not_shown(server: RedisServer) -> None:
    for each in ("/", "#", "?"):
        with pytest.raises(ConfigError, match="options username and password") as error:
            source(server, url=f"redis://:hunter2{each}abc@localhost:6379/0")
        assert "hunter2" not in str(error.value)
        assert error.value.__suppress_context__
    url = server.url.replace("//", "//me:mine@")
    for name in ("username", "password"):
        with pytest.raises(ConfigError, match=f"{name} is set twice"):
            source(server, url=url, **{name: "other"})


def test_batches_of_large_entries_are_small(
    server: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "BATCH_BYTES", 50_000)
    for size in (20_000, 20_000, 20_000, 90_000, 90_000, 10):
        client.xadd("a", {"v": b"x" * size})
    reader = source(server)
    tasks = opened(reader, reader.initialOffset())
    sizes = []
    while sum(sizes) < 6:
        if (batch := tasks.read(1.0)) is not None:
            sizes.append(batch[1].num_rows)
    assert sizes == [2, 1, 1, 1, 1]


def test_ten_thousand_streams_are_asked_for_little_of_each(server: RedisServer) -> None:
    partitions = [partition_reader.StreamPartition(f"s{n}", (0, 0)) for n in range(10_000)]
    reader = RedisPartitionsReader(
        RedisServerOptions.of("source redis", Options("source redis", {"url": server.url})),
        partitions, ["id"], until=None, fails_on_loss=True,
    )  # fmt: skip
    assert (reader._count, reader._count_max) == (1, 10)
    reader.close()


def test_entries_are_read_once_from_where_it_was(server: RedisServer, client: Any) -> None:
    reader = source(server)
    start = reader.initialOffset()
    assert start == {"a": "0-0", "b": "0-0"}
    tasks = opened(reader, start)
    add(client, "a", "1-0", "1-1", "2-0")
    add(client, "b", "5-18446744073709551615")
    assert sorted(read(tasks, 4)) == ["1-0", "1-1", "2-0", "5-18446744073709551615"]
    end = reader.mergeOffsets(tasks.offsets)
    assert end == {"a": "2-1", "b": "6-0"}
    again = opened(reader, end)
    add(client, "b", "6-0", "6-1")
    assert read(again, 2) == ["6-0", "6-1"]
    assert reader.latestOffset(end) == {"a": "2-1", "b": "6-2"}
    assert not reader.hasReached(end, {"a": "2-1", "b": "6-2"})
    assert reader.hasReached(reader.mergeOffsets(again.offsets), {"a": "2-1", "b": "6-2"})


def test_what_was_deleted_before_it_was_read_is_not_waited_for(
    server: RedisServer, client: Any
) -> None:
    reader = source(server)
    add(client, "a", "1-0", "2-0", "3-0")
    add(client, "b", "5-0")
    client.xdel("a", "2-0", "3-0")
    client.xtrim("b", maxlen=0, approximate=False)
    wanted = reader.latestOffset(reader.initialOffset())
    assert wanted == {"a": "1-1", "b": "0-0"}
    tasks = opened(reader, reader.initialOffset())
    assert read(tasks, 1) == ["1-0"]
    assert reader.hasReached(reader.mergeOffsets(tasks.offsets), wanted)
    add(client, "a", "4-0")
    assert read(opened(reader, wanted), 1) == ["4-0"], "nothing was lost"
    assert reader.latestOffset({"a": "4-1", "b": "5-1"}) == {"a": "4-1", "b": "5-1"}


def test_what_a_row_has(server: RedisServer, client: Any) -> None:
    client.xadd("a", {"name": "x", "raw": b"\xff"}, id="1700000000123-4")
    _, batch = opened(source(server), {"a": "0-0", "b": "0-0"}).read(0) or (0, None)
    assert batch is not None
    (row,) = batch.to_pylist()
    assert row["timestamp"].timestamp() == 1_700_000_000.123
    assert (row["stream"], row["id"]) == ("a", "1700000000123-4")
    assert row["fields"] == [("name", b"x"), ("raw", b"\xff")]
    pruned = source(server).prune(["id"])
    assert pruned is not None
    _, batch = opened(pruned, {"a": "0-0", "b": "0-0"}).read(0) or (0, None)
    assert batch is not None
    assert batch.to_pydict() == {"id": ["1700000000123-4"]}
    assert source(server).prune([]) is None


@pytest.mark.parametrize(
    ("start", "wanted"),
    [("earliest", ["3-0", "4-0"]), ("latest", []), ("3-5", ["4-0"]), ("4-0", ["4-0"])],
)
def test_where_a_query_begins(
    server: RedisServer, client: Any, start: str, wanted: list[str]
) -> None:
    add(client, "a", "1-0", "2-0", "3-0", "4-0")
    client.xdel("a", "1-0", "2-0")
    reader = source(server, streams="a", startingOffsets=start)
    tasks = opened(reader, reader.initialOffset())
    add(client, "a", "9-0")
    assert read(tasks, len(wanted) + 1) == [*wanted, "9-0"]


def test_a_new_query_is_not_told_of_what_was_removed_before_it(
    server: RedisServer, client: Any
) -> None:
    add(client, "a", "1-0", "2-0")
    client.xtrim("a", maxlen=0, approximate=False)
    for start in ("latest", "earliest", "1-7"):
        reader = source(server, streams="a", startingOffsets=start)
        assert reader.initialOffset() == {"a": "0-0"}


def test_an_epoch_is_read_again_to_its_end(server: RedisServer, client: Any) -> None:
    reader = source(server)
    add(client, "a", *(f"{number}-0" for number in range(1, 6)))
    tasks = opened(reader, {"a": "1-1", "b": "0-0"}, {"a": "4-1", "b": "0-0"})
    assert not tasks.exhausted
    assert read(tasks, 3) == ["2-0", "3-0", "4-0"]
    assert tasks.exhausted
    assert reader.mergeOffsets(tasks.offsets) == {"a": "4-1", "b": "0-0"}
    client.xdel("a", "3-0", "4-0")  # by somebody
    tasks = opened(reader, {"a": "1-1", "b": "0-0"}, {"a": "4-1", "b": "0-0"})
    assert read(tasks, 1) == ["2-0"]
    assert tasks.exhausted
    assert reader.mergeOffsets(tasks.offsets) == {"a": "4-1", "b": "0-0"}


def test_entries_that_are_trimmed_before_they_are_read_are_told(
    server: RedisServer, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    add(client, "a", "1-0", "2-0")
    reader = source(server)
    tasks, forgiving = (
        opened(reader, {"a": "0-0", "b": "0-0"}),
        source(server, failOnDataLoss="false"),
    )
    read(tasks, 2)
    add(client, "a", "3-0", "4-0", "5-0")
    client.xtrim("a", minid="4-0", approximate=False)
    with pytest.raises(OffsetOutOfRangeError, match=r"stream a .* entry that was read last, 2-0"):
        tasks.read(0)
    with pytest.raises(OffsetOutOfRangeError, match="2-0, is gone"):
        reader.partitions({"a": "2-1", "b": "0-0"})
    with caplog.at_level(logging.WARNING):
        tasks = opened(forgiving, {"a": "2-1", "b": "0-0"})
        assert read(tasks, 2) == ["4-0", "5-0"]
    assert "2-0, is gone" in caplog.text


def test_what_was_read_may_be_trimmed(server: RedisServer, client: Any) -> None:
    add(client, "a", "1-0", "2-0")
    reader = source(server)
    tasks = opened(reader, {"a": "0-0", "b": "0-0"})
    read(tasks, 2)
    add(client, "a", "3-0")
    client.xtrim("a", minid="2-0", approximate=False)
    assert read(tasks, 1) == ["3-0"]
    client.xtrim("a", maxlen=0, approximate=False)
    assert reader.partitions({"a": "3-1", "b": "0-0"})[0].start == (3, 1), "nothing came since"


def test_a_stream_that_was_made_anew_is_told(
    server: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_source, "LOOK_S", 0.0)
    add(client, "a", "5-0")
    reader = source(server)
    assert not reader.needsReconfiguration()
    reader.commit({"a": "5-1", "b": "0-0"})
    assert not reader.needsReconfiguration()
    client.delete("a")
    add(client, "a", "1-0")
    wait_until(reader.needsReconfiguration, "the look that finds it, or its task waits for ever")
    with pytest.raises(OffsetOutOfRangeError, match="made anew"):
        reader.partitions({"a": "5-1", "b": "0-0"})
    forgiving = source(server, failOnDataLoss="false")
    assert read(opened(forgiving, {"a": "5-1", "b": "0-0"}), 1) == ["1-0"]


def test_an_entry_that_is_no_map_is_a_bad_record(server: RedisServer, client: Any) -> None:
    client.execute_command("XADD", "a", "1-0", "f", "1", "f", "2")
    client.execute_command("XADD", "a", "2-0", b"\xff", "1")
    client.execute_command("XADD", "a", "18446744073709551615-0", "f", "1")
    tasks = opened(source(server), {"a": "0-0", "b": "0-0"})
    told: list[BadRecordError] = []
    tasks.on_bad_record = told.append
    assert tasks.read(0) is None
    assert [each.offset for each in told][:2] == [{"a": "1-1"}, {"a": "2-1"}]
    assert "more than once" in told[0].message
    assert "no UTF-8" in told[1].message
    assert "no time" in told[2].message
    with pytest.raises(BadRecordError, match="Entry 1-0 of the stream a"):
        opened(source(server), {"a": "0-0", "b": "0-0"}).read(0)


def test_a_server_that_is_away_is_an_outage(server: RedisServer, client: Any) -> None:
    reader = source(server)
    tasks = opened(reader, {"a": "0-0", "b": "0-0"})
    server.process.kill()
    with pytest.raises(SourceUnavailableError, match="cannot be read"):
        tasks.read(0.005)
    with pytest.raises(SourceUnavailableError):
        reader.partitions({"a": "1-1", "b": "0-0"})
    assert not reader.needsReconfiguration()
    with pytest.raises(ConfigError, match="cannot be reached"):
        reader.initialOffset()
    server.start()
    add(client, "a", "1-0")
    assert read(tasks, 1) == ["1-0"]


def test_a_server_that_becomes_a_replica_is_an_outage(server: RedisServer, client: Any) -> None:
    """It sends away whoever waits."""

    def waits() -> bool:
        return any("b" in each["flags"] for each in client.client_list())

    tasks = opened(source(server), {"a": "0-0", "b": "0-0"})
    try:
        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(tasks.read, 20.0)
            wait_until(waits, "the task waits for entries")
            client.replicaof("127.0.0.1", 1)
            with pytest.raises(SourceUnavailableError, match="UNBLOCKED"):
                reading.result(30.0)
    finally:
        client.replicaof("NO", "ONE")
        tasks.close()


def test_what_it_cannot_read_it_says(server: RedisServer, client: Any) -> None:
    client.set("a", "text")
    with pytest.raises(SourceError, match="WRONGTYPE"):
        source(server).partitions({"a": "1-1", "b": "0-0"})
    with pytest.raises(SourceError, match="is not one of a redis source"):
        source(server).partitions({"a": {"0": 1}})
    with pytest.raises(ConfigError, match=r"startingOffsets .* is '17'"):
        source(server, startingOffsets="17")
    with pytest.raises(ConfigError, match="streams"):
        source(server, streams=" , ")


def test_ids_have_neighbours() -> None:
    assert behind((1, 2**64 - 1)) == (2, 0)
    assert before((2, 0)) == (1, 2**64 - 1)
    assert before((0, 0)) == (0, 0)
