"""Lines from a server of this machine."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import ConfigError, OffsetOutOfRangeError, SourceError, SourceUnavailableError
from engine.query.checked import refuse_what_is_read_once
from engine.sources import socket as source
from engine.sources.kafka.reader import KafkaReader
from engine.sources.mqtt.data_source import MqttReader
from engine.sources.postgres.reader import PostgresReader
from engine.sources.socket import SocketDataSource, SocketLines, SocketReader
from tests.waiting import wait_until


class Server:
    """One connection after the other."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        self.port = self.listener.getsockname()[1]
        self._accepted: list[socket.socket] = []

    def accept(self) -> socket.socket:
        connection, _ = self.listener.accept()
        self._accepted.append(connection)
        return connection

    def close(self) -> None:
        for each in (self.listener, *self._accepted):
            each.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def reader(port: int, **options: str) -> SocketReader:
    made = SocketDataSource({"host": "127.0.0.1", "port": str(port), **options})
    return made.continuousReader(made.schema())


@pytest.fixture
def lines(server: Server) -> Iterator[SocketLines]:
    made = reader(server.port)
    (partition,) = made.partitions(made.initialOffset())
    opened = made.open(partition)
    yield opened
    opened.close()


def read(lines: SocketLines, count: int) -> list[str]:
    found: list[str] = []

    def look() -> bool:
        batch = lines.read(0.05)
        found.extend([] if batch is None else batch.column("value").to_pylist())
        return len(found) >= count

    wait_until(look, f"{count} lines")
    assert lines.read(0.0) is None
    return found


def connected(server: Server, lines: SocketLines) -> socket.socket:
    assert lines.read(0.0) is None
    return server.accept()


@pytest.mark.parametrize(
    "parts",
    [
        [b"a\nb\r\nc\rd\n\n"],
        [b"a\nb\r", b"\nc\r", b"d\n", b"\n"],
        [bytes([each]) for each in b"a\nb\r\nc\rd\n\n"],
    ],
)
def test_lines_end_as_javas_do(server: Server, lines: SocketLines, parts: list[bytes]) -> None:
    connection = connected(server, lines)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found: list[str] = []
    for part in parts:
        connection.sendall(part)
        if (batch := lines.read(0.05)) is not None:
            found += batch.column("value").to_pylist()
    if len(found) < 5:
        found += read(lines, 5 - len(found))
    assert found == ["a", "b", "c", "d", ""]
    assert lines.offset == 5


def test_what_is_no_utf_8_is_replaced_and_times_are_told(server: Server) -> None:
    made = reader(server.port, includeTimestamp="true")
    lines = made.open(made.partitions(7)[0])
    connection = connected(server, lines)
    connection.sendall(b"\xff\xc3\xa9\n")
    batch = wait_until(lambda: lines.read(0.05), "a batch")
    assert batch.column("value").to_pylist() == ["\ufffdé"]
    assert batch.schema.names == ["value", "timestamp"]
    assert batch.column("timestamp").null_count == 0
    assert lines.offset == made.mergeOffsets([8]) == 8
    pruned = made.prune(["timestamp"])
    assert pruned is not None
    assert pruned.prune([]) is None
    lines.close()


def test_a_long_line_comes_in_pieces(
    server: Server, lines: SocketLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connected(server, lines)
    sender = threading.Thread(target=connection.sendall, args=(b"x" * 3_000_000 + b"\ny\n",))
    sender.start()
    assert [len(each) for each in read(lines, 2)] == [3_000_000, 1]
    sender.join()
    monkeypatch.setattr(source, "LINE_BYTES_MAX", 10)
    connection.sendall(b"x" * 11)
    with pytest.raises(SourceError, match="11 bytes without the end"):
        wait_until(lambda: lines.read(0.05), "never")


def test_a_server_that_hangs_up_is_called_again(
    server: Server,
    lines: SocketLines,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(source, "AGAIN_S", 0.0)
    connection = connected(server, lines)
    connection.sendall(b"a\nhalf")
    connection.close()
    with caplog.at_level(logging.WARNING):
        assert read(lines, 2) == ["a", "half"]
        connection = server.accept()
        connection.sendall(b"b\n")
        assert read(lines, 1) == ["b"]
    assert "closed the connection" in caplog.text
    assert "is back" in caplog.text
    assert lines.offset == 3


def test_a_server_that_stays_away_is_an_outage(
    server: Server, lines: SocketLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "AGAIN_S", 0.0)
    monkeypatch.setattr(source, "AWAY_S", 0.0)
    server.listener.close()
    assert lines.read(0.0) is None
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        lines.read(0.0)


def test_a_read_that_waits_is_interrupted(server: Server, lines: SocketLines) -> None:
    connected(server, lines)
    ended = threading.Event()

    def wait() -> None:
        lines.read(600)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    lines.interrupt()
    assert ended.wait(60)
    thread.join()
    for _ in range(100_000):  # nobody reads meanwhile
        lines.interrupt()
    assert lines.read(0.0) is None


def test_lines_are_not_read_again(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    made = reader(server.port)
    with caplog.at_level(logging.WARNING):
        (partition,) = made.partitions(5)
    assert "what was read behind line 5 and is not committed" in caplog.text
    with pytest.raises(OffsetOutOfRangeError, match=r"lines 5 to 9 .* are gone"):
        made.open(partition, 9)
    lines = reader(server.port, failOnDataLoss="false").open(partition, 9)
    assert lines.exhausted
    assert lines.read(1) is None
    assert lines.offset == 9
    lines.close()
    with pytest.raises(SourceError, match="is not one of a socket"):
        made.partitions({"0": 5})


def test_sinks_that_keep_their_rows_are_refused(server: Server) -> None:
    def check(sink: str, **options: str) -> None:
        stream: Any = SimpleNamespace(reader=reader(server.port, **options), description="socket[]")
        refuse_what_is_read_once([stream], sink)

    for sink in ("parquet", "delta", "kafka", "somebodys"):
        with pytest.raises(ConfigError, match=f"socket.. cannot be read again.* sink {sink}"):
            check(sink)
        check(sink, failOnDataLoss="false")
    for sink in ("console", "memory", "noop", "foreach", "foreachBatchArrow"):
        check(sink)


def test_options() -> None:
    for options, said in (
        ({"host": "x"}, "needs the option port"),
        ({"port": "1"}, "needs the option host"),
        ({"host": "x", "port": "70000"}, "port"),
        ({"host": "x", "port": "1", "timeStamp": "true"}, "no option"),
    ):
        with pytest.raises(ConfigError, match=said):
            SocketDataSource(options)
    with pytest.raises(ConfigError, match="is not known"):
        SocketDataSource({"host": "no such.host.", "port": "1"}).continuousReader(
            SocketDataSource({"host": "x", "port": "1"}).schema()
        ).initialOffset()


def test_what_lets_go_of_its_records_says_so() -> None:
    """Replay refuses them before it asks: a second reader would take a session away."""
    for reader in (SocketReader, MqttReader, PostgresReader):
        assert not reader.keepsCommitted
    assert KafkaReader.keepsCommitted
