"""What the MQTT source reads, when it acknowledges, and what it says of sessions that are gone."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from engine.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
)
from engine.sources.contract import Offset
from engine.sources.mqtt import partition_reader, rows
from engine.sources.mqtt.data_source import MqttReader, MqttSource
from engine.sources.mqtt.partition_reader import fits
from engine.sources.mqtt.rows import SCHEMA
from engine.sources.mqtt.session import Position
from tests.connectors.mqtt.queries import Kept, opened, read, source, start
from tests.servers.certificates import write_certificate
from tests.servers.mqtt import PASSWORD, USER, MqttBroker
from tests.servers.mqtt_clients import connected, publish
from tests.waiting import wait_until

THREE = (b"1", b"2", b"3")


def end_session(broker: MqttBroker, offset: Offset) -> None:
    """As when it expires."""
    with connected(broker, Position.of(offset).client, 0):
        pass


def read_all(reader: MqttReader, start: Offset, count: int, *, commit: bool) -> list[bytes]:
    """What a task reads that then ends."""
    task = opened(reader, start)
    found = read(task, count) if count else [task.read(0.2)]
    if commit:
        task.committed(task.offset)
    task.close()
    return [each for each in found if each is not None]


def test_what_is_not_committed_comes_again(broker: MqttBroker, topic: str) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    publish(broker, topic, *THREE)
    assert read_all(reader, begin, 3, commit=False) == list(THREE)
    assert read_all(reader, begin, 3, commit=True) == list(THREE)
    assert read_all(reader, begin, 0, commit=False) == []


def test_an_epoch_that_is_committed_is_acknowledged_and_no_later_one(
    broker: MqttBroker, topic: str
) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    publish(broker, topic, *THREE)
    task = opened(reader, begin)
    read(task, 3)
    assert task.offset == {**begin, "received": 3}
    task.committed({**begin, "received": 1})
    task.close()
    assert read_all(reader, begin, 2, commit=True) == [b"2", b"3"]


def test_what_only_a_start_that_came_to_nothing_wanted_is_left_out(
    broker: MqttBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = source(broker, f"{topic}/a")
    begin = reader.initialOffset()
    source(broker, f"{topic}/a,{topic}/b/#").partitions(begin)
    for name in ("a", "b/x", "b/y", "a"):
        publish(broker, f"{topic}/{name}", name.encode())
    task = opened(reader, begin)
    assert read(task, 2) == [b"a", b"a"]
    assert task.offset == {**begin, "received": 4}
    task.committed(task.offset)
    task.close()
    assert read_all(reader, begin, 0, commit=False) == []
    assert caplog.text.count("are left out") == 1


def test_topics_that_a_shared_filter_has() -> None:
    assert fits("plant/1", "$share/us/plant/+")
    assert not fits("plant/1/x", "$share/us/plant/+")
    assert fits("plant/1/x", "plant/#")
    assert not fits("$SYS/x", "#")


def test_what_comes_before_the_first_task_and_between_two_is_kept(
    broker: MqttBroker, topic: str
) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    publish(broker, topic, b"early")
    assert read_all(reader, begin, 1, commit=True) == [b"early"]
    publish(broker, topic, b"between")
    assert read_all(reader, begin, 1, commit=True) == [b"between"]


def test_an_epoch_that_is_run_again_leaves_its_messages_to_later_ones(
    broker: MqttBroker, topic: str
) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    publish(broker, topic, *THREE)
    until = {**begin, "received": 3}
    again = opened(reader, begin, until)
    assert again.exhausted
    assert again.read(0.0) is None
    assert again.offset == until
    assert read_all(reader, until, 3, commit=True) == list(THREE)


def test_columns(broker: MqttBroker, topic: str) -> None:
    publish(broker, f"{topic}/kept", b"old", retain=True)
    reader = source(broker, f"{topic}/+")
    task = opened(reader, reader.initialOffset())
    found: list[dict[str, Any]] = []

    def await_rows(count: int) -> None:
        def look() -> bool:
            if (batch := task.read(0.01)) is not None:
                assert batch.schema == SCHEMA
                found.extend(batch.to_pylist())
                task.committed(task.offset)
            return len(found) == count

        wait_until(look, f"{count} messages")

    await_rows(1)
    publish(broker, f"{topic}/a", b"\xff", properties=[("unit", "C"), ("unit", "K"), ("n", "1")])
    publish(broker, f"{topic}/b", b"", qos=0)  # is kept for nobody who is not connected
    await_rows(3)
    task.close()
    assert {row.pop("timestamp").year > 2000 for row in found} == {True}
    assert [tuple(row.values()) for row in found] == [
        (f"{topic}/kept", b"old", 1, True, []),
        (f"{topic}/a", b"\xff", 1, False, [("unit", "K"), ("n", "1")]),
        (f"{topic}/b", b"", 0, False, []),
    ]
    publish(broker, f"{topic}/kept", b"", retain=True)  # the broker keeps it no more


def test_only_what_is_wanted_is_read(broker: MqttBroker, topic: str) -> None:
    reader = source(broker, topic).prune(["qos"])
    assert reader is not None
    task = opened(reader, reader.initialOffset())
    publish(broker, topic, b"x")
    batch = wait_until(lambda: task.read(0.01), "the message")
    assert batch.to_pydict() == {"qos": [1]}
    task.close()


def test_retained_messages_are_read_at_first_or_not_at_all(broker: MqttBroker, topic: str) -> None:
    publish(broker, f"{topic}/a", b"a", retain=True)
    publish(broker, f"{topic}/b", b"b", retain=True)
    without = source(broker, f"{topic}/#", retained="false")
    assert read_all(without, without.initialOffset(), 0, commit=False) == []
    reader = source(broker, f"{topic}/a")
    begin = reader.initialOffset()
    assert read_all(reader, begin, 1, commit=True) == [b"a"]
    committed = {**begin, "received": 1}
    assert read_all(reader, committed, 0, commit=True) == []
    more = source(broker, f"{topic}/a,{topic}/b")
    assert read_all(more, committed, 1, commit=True) == [b"b"]
    for name in "ab":
        publish(broker, f"{topic}/{name}", b"", retain=True)  # the broker keeps it no more


def test_so_many_come_that_are_not_committed(broker: MqttBroker, topic: str) -> None:
    reader = source(broker, topic, receiveMaximum="2")
    task = opened(reader, reader.initialOffset())
    publish(broker, topic, *THREE)
    assert read(task, 2) == [b"1", b"2"]
    task.committed(task.offset)
    assert read(task, 1) == [b"3"]
    task.close()


def test_a_batch_is_not_larger_than_it_may_be(
    broker: MqttBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "BATCH_BYTES", 5)
    sent = [b"1", b"2", b"four", b"a large one", b"5"]
    reader = source(broker, topic)
    task = opened(reader, reader.initialOffset())
    assert task.read(0.0) is None
    for each in sent:  # at once, as no broker promises to send them
        came = SimpleNamespace(
            mid=0, topic=topic, payload=each, qos=0, retain=False, properties=None
        )
        task._arrive(came)  # type: ignore[attr-defined]
    batches = [task.read(0.0) for _ in range(4)]
    task.close()
    assert [batch and batch.column("payload").to_pylist() for batch in batches] == [
        [b"1", b"2"], [b"four"], [b"a large one"], [b"5"],
    ]  # fmt: skip


def test_other_topics_from_now_on(broker: MqttBroker, topic: str) -> None:
    before = source(broker, f"{topic}/a,{topic}/b")
    begin = before.initialOffset()
    after = source(broker, f"{topic}/b,{topic}/c")
    task = opened(after, begin)
    for name in "abc":
        publish(broker, f"{topic}/{name}", name.encode())
    assert read(task, 2) == [b"b", b"c"]
    assert task.offset["topics"] == [f"{topic}/b", f"{topic}/c"]
    task.close()


def test_two_queries_share_a_subscription(broker: MqttBroker, topic: str) -> None:
    readers = [source(broker, f"$share/readings/{topic}") for _ in range(2)]
    begins = [reader.initialOffset() for reader in readers]
    tasks = [opened(*each) for each in zip(readers, begins, strict=True)]
    sent = [b"%d" % each for each in range(100)]
    publish(broker, topic, *sent)
    found: list[bytes] = []

    def look() -> bool:
        for task in tasks:
            if (batch := task.read(0.01)) is not None:
                found.extend(batch.column("payload").to_pylist())
                task.committed(task.offset)
        return len(found) >= len(sent)

    wait_until(look, "all messages")
    for task in tasks:
        task.close()
    assert sorted(found) == sorted(sent)


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_that_is_gone_is_told_until_that_is_accepted(
    broker: MqttBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    end_session(broker, begin)
    for _ in range(2):  # to look does not make it
        with pytest.raises(OffsetOutOfRangeError, match="does not have the session of continuous-"):
            reader.partitions(begin)
    loose = source(broker, topic, failOnDataLoss="false")
    task = opened(loose, begin)
    assert "failOnDataLoss is false: the query goes on" in caplog.text
    publish(broker, topic, b"x")
    assert read(task, 1) == [b"x"]
    task.close()


def test_a_session_that_ends_between_driver_and_task(broker: MqttBroker, topic: str) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    task = opened(reader, begin)
    end_session(broker, begin)
    with pytest.raises(SourceUnavailableError, match="has lost the session"):
        task.read(0.0)
    with pytest.raises(OffsetOutOfRangeError):
        reader.partitions(begin)


def test_who_comes_later_has_the_session(broker: MqttBroker, topic: str) -> None:
    reader = source(broker, topic)
    begin = reader.initialOffset()
    earlier = opened(reader, begin)
    assert earlier.read(0.0) is None
    later = opened(reader, begin)
    assert later.read(0.0) is None
    with pytest.raises(SourceUnavailableError, match="to another client that has this id") as error:
        wait_until(lambda: earlier.read(0.01), "it is told")
    assert "a copy of its checkpoint runs" in str(error.value)
    publish(broker, topic, b"x")
    assert read(later, 1) == [b"x"]
    earlier.close()
    later.close()


def test_what_cannot_be_read_ends_the_connection(
    broker: MqttBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = source(broker, topic)
    task = opened(reader, reader.initialOffset())
    monkeypatch.setattr(rows.Message, "of", lambda *given: 1 // 0)
    assert task.read(0.0) is None
    publish(broker, topic, b"x")
    with pytest.raises(SourceUnavailableError, match="cannot be read: ZeroDivisionError"):
        wait_until(lambda: task.read(0.01), "it is told")
    task.close()


# -- queries --------------------------------------------------------------------------------------


def test_a_query_that_is_drained_repeats_nothing(
    broker: MqttBroker, topic: str, tmp_path: Path
) -> None:
    sink = Kept()
    for number in range(3):
        query = start(broker, topic, tmp_path, sink)
        sent = [b"%d-%d" % (number, each) for each in range(100)]
        publish(broker, topic, *sent)
        sink.await_all(*sent)
        assert query.drain(30)
    assert sink.payloads == [b"%d-%d" % (n, each) for n in range(3) for each in range(100)]


def test_a_query_that_is_stopped_loses_nothing(
    broker: MqttBroker, topic: str, tmp_path: Path
) -> None:
    sink = Kept()
    query = start(broker, topic, tmp_path, sink)
    for number in range(5):
        publish(broker, topic, b"%d" % number, b"%d'" % number)
        query.stop()
        query = start(broker, topic, tmp_path, sink)
    sink.await_all(*(b"%d" % each for each in range(5)), *(b"%d'" % each for each in range(5)))
    assert query.drain(30)


def test_a_password_is_nowhere(
    broker: MqttBroker, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("engine", "paho"):
        caplog.set_level(logging.DEBUG, logger=name)
    sink = Kept()
    login: dict[str, Any] = {"url": broker.url_login, "username": USER}
    with pytest.raises(ConfigError, match=r"Not authorized.*username and password"):
        start(broker, topic, tmp_path, sink, **login, password="wrong")
    query = start(broker, topic, tmp_path, sink, **login, password=PASSWORD)
    publish(broker, topic, b"x")
    sink.await_all(b"x")
    shown = str(query.status)
    assert query.drain(30)
    assert PASSWORD not in shown + caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


# The client leaves the socket of a handshake that fails to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_shows_its_certificate(broker: MqttBroker, topic: str) -> None:
    with pytest.raises(ConfigError, match=r"shows a certificate that is not trusted.*caFile"):
        source(broker, topic, url=broker.url_tls).initialOffset()
    reader = source(broker, topic, url=broker.url_tls, caFile=str(broker.certificate))
    begin = reader.initialOffset()
    publish(broker, topic, b"x")
    assert read_all(reader, begin, 1, commit=True) == [b"x"]
    with pytest.raises(ConfigError, match=r"a certificate cannot be used.*executors"):
        source(broker, topic, url=broker.url_tls, caFile="/no/such.pem").initialOffset()


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "localhost:1883"}, "is no address of a broker"),
        ({"url": "mqtt://me:it@localhost"}, "has a user or a password"),
        ({"url": "mqtt://localhost:x"}, "is no address of a broker"),
        ({"url": "mqtt://localhost/path"}, "is no address of a broker"),
        ({"caFile": "/ca.pem"}, "without TLS"),
        ({"url": "mqtt://a..b"}, "is no address of a broker"),
        ({"url": "mqtts://localhost", "keyFile": "/key.pem"}, "keyFile, and no certFile"),
        ({"password": "x"}, "no username"),
        ({"topics": " , "}, "filters of topics"),
        ({"topics": "a,b/#/c"}, "topics: 'b/#/c' is no filter"),
        ({"topics": "a+"}, "is no filter"),
        ({"topics": "a\0"}, "is no filter"),
        ({"topics": "x" * 65_536}, "is no filter"),
        ({"topics": "$share/readings"}, "is no filter"),
        ({"topics": "$share//a"}, "is no filter"),
        ({"topics": "$share/a+/b"}, "is no filter"),
        ({"receiveMaximum": "0"}, "receiveMaximum"),
        ({"sessionExpiry": "0 seconds"}, "sessionExpiry"),
        ({"sessionExpiry": "soon"}, "sessionExpiry"),
        ({"qos": "2"}, "no option 'qos'"),
    ],
)
def test_wrong_options(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MqttSource({"url": "mqtt://localhost", "topics": "a", **options})


def test_an_offset_of_another_source(broker: MqttBroker) -> None:
    with pytest.raises(SourceError, match="is not one of source mqtt"):
        source(broker, "a").partitions({"a": "0-0"})


@pytest.mark.parametrize("topics", ["#", "+", "/", "a//+/#", "$SYS/#", "$share/g/+/a", "ä b"])
def test_filters(topics: str) -> None:
    MqttSource({"url": "mqtt://localhost", "topics": topics})


def test_a_key_with_a_pass_phrase_is_refused_and_none_is_asked_for(tmp_path: Path) -> None:
    with_key, _ = write_certificate(tmp_path)
    key = load_pem_private_key(with_key.read_bytes(), None)
    encrypted = tmp_path / "key.pem"
    encrypted.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    found = MqttSource(
        {
            "url": "mqtts://localhost",
            "topics": "a",
            "certFile": str(with_key),
            "keyFile": str(encrypted),
        }
    )
    with pytest.raises(ConfigError, match="has a pass phrase"):
        found.continuousReader(found.schema()).initialOffset()


def test_micro_batches_are_refused() -> None:
    found = MqttSource({"url": "mqtt://localhost", "topics": "a"})
    with pytest.raises(ConfigError, match="is for continuous queries"):
        found.streamReader(found.schema())
