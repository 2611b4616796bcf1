"""What the MQTT sink publishes, when an epoch is prepared, and what it says of refusals."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import MapType, StringType, StructType

from engine.base.connector_options import Options
from engine.clients import mqtt_connection
from engine.clients.mqtt import MqttServer
from engine.clients.mqtt_connection import MqttConnection
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.sinks.contract import WriterContext
from engine.sinks.mqtt import publisher
from engine.sinks.mqtt.data_source import MqttSink, MqttWriter, Published, PublishingWriter
from engine.sinks.mqtt.messages import Publication
from tests.connectors.mqtt.test_outages import kill, suspend
from tests.servers.mqtt import PASSWORD, USER, MqttBroker
from tests.servers.mqtt_clients import Listener
from tests.waiting import wait_until

PAYLOAD = StructType().add("payload", "binary")


@pytest.fixture
def listener(broker: MqttBroker, topic: str) -> Iterator[Listener]:
    with Listener(broker, f"{topic}/#").listening() as found:
        yield found


def sink(broker: MqttBroker, schema: StructType = PAYLOAD, **options: str) -> MqttWriter:
    return MqttSink({"url": broker.url, **options}).streamWriter(schema, overwrite=False)


def options_of(broker: MqttBroker) -> Options:
    return Options("sink mqtt", {"url": broker.url})


def task(writer: MqttWriter) -> PublishingWriter:
    found: PublishingWriter = pickle.loads(pickle.dumps(writer.taskWriter()))
    found.open(WriterContext("query", "run", 1, 0, 0, 1))
    return found


def payloads(*values: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"payload": pa.array(values, pa.binary())})


def write(broker: MqttBroker, *values: bytes | None, **options: Any) -> Published:
    """An epoch, of a task that then ends."""
    writer = task(sink(broker, **options))
    try:
        return writer.write(0, iter([payloads(*values)] if values else []))
    finally:
        writer.close()


def test_rows_are_messages(broker: MqttBroker, topic: str, listener: Listener) -> None:
    assert write(broker, b"\xff", b"", topic=f"{topic}/x") == Published(2)
    wait_until(lambda: len(listener.heard) == 2, "two messages")
    assert listener.heard == [(f"{topic}/x", each, 1, False, ()) for each in (b"\xff", b"")]
    assert write(broker, topic=topic) == Published(0)


def test_columns_say_more(broker: MqttBroker, topic: str, listener: Listener) -> None:
    schema = (
        StructType()
        .add("topic", "string")
        .add("payload", "string")
        .add("retain", "boolean")
        .add("properties", MapType(StringType(), StringType()))
    )
    rows = [
        {"topic": f"{topic}/a", "payload": "ä", "retain": False, "properties": None},
        {"topic": f"{topic}/b", "payload": "", "retain": True,
         "properties": [("unit", "C"), ("none", None)]},
    ]  # fmt: skip
    columns = pa.schema(
        [
            ("topic", pa.string()), ("payload", pa.string()),
            ("retain", pa.bool_()), ("properties", pa.map_(pa.string(), pa.string())),
        ]
    )  # fmt: skip
    writer = task(sink(broker, schema))
    writer.write(0, iter([pa.RecordBatch.from_pylist(rows, columns)]))
    writer.close()
    wait_until(lambda: len(listener.heard) == 2, "two messages")
    assert listener.heard == [
        (f"{topic}/a", "ä".encode(), 1, False, ()),
        (f"{topic}/b", b"", 1, True, (("unit", "C"),)),
    ]


def test_more_than_may_be_under_way(broker: MqttBroker, topic: str, listener: Listener) -> None:
    """The broker allows 100."""
    sent = [b"%d" % each for each in range(3_000)]
    write(broker, *sent, topic=f"{topic}/x")
    wait_until(lambda: len(listener.heard) == len(sent), "all of them")
    assert listener.payloads == sent


@pytest.mark.parametrize("strike", [suspend, kill])
def test_an_epoch_is_prepared_when_the_broker_has_it(
    broker: MqttBroker,
    topic: str,
    listener: Listener,
    strike: Callable[[MqttBroker], Callable[[], None]],
) -> None:
    sent = [b"%d" % each for each in range(1_000)]
    writer = task(sink(broker, topic=f"{topic}/x"))
    writer.write(0, iter([payloads(b"first")]))
    come_back = strike(broker)
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(writer.write, 1, iter([payloads(*sent)]))
        with pytest.raises(TimeoutError):
            writing.result(1)
        come_back()
        assert writing.result(60) == Published(1_000)
    writer.close()
    wait_until(lambda: {b"first", *sent} <= set(listener.payloads), "all of them", 60)


@pytest.mark.parametrize("strike", [suspend, kill])
def test_a_broker_that_is_away_for_too_long(
    broker: MqttBroker,
    topic: str,
    strike: Callable[[MqttBroker], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mqtt_connection, "END_S", 0.2)
    writer = task(sink(broker, topic=topic))
    writer.write(0, iter([payloads(b"1")]))
    assert writer._publisher is not None
    monkeypatch.setattr(writer._publisher, "_retry_s", 1.0)  # a busy broker may take as long
    strike(broker)
    with pytest.raises(SinkUnavailableError, match=r"takes no message for 1 s|cannot be reached"):
        writer.write(1, iter([payloads(b"2")]))
    writer.aborted(1)
    writer.close()


def test_a_message_that_is_too_large(broker: MqttBroker, topic: str) -> None:
    with pytest.raises(SinkCommitRejectedError, match=r"larger than .* allows, 1,000,000 bytes"):
        write(broker, b"x" * 1_000_000, topic=topic)


@pytest.mark.parametrize("properties", [(), (("unit", "C"), ("ä", "x" * 200))])
def test_a_message_as_large_as_the_broker_allows(
    broker: MqttBroker, topic: str, properties: tuple[tuple[str, str], ...]
) -> None:
    made = publisher.Publisher(MqttServer.of("sink mqtt", options_of(broker)), "large", 60.0)
    most = 1_000_000 - publisher.packet_size(Publication(topic, b"x" * 900_000, False, properties))
    payload = b"x" * (900_000 + most)
    made.publish(Publication(topic, payload, False, properties))
    made.finish()
    with pytest.raises(SinkCommitRejectedError, match="1,000,001 bytes"):
        made.publish(Publication(topic, payload + b"x", False, properties))
    made.drop()


def test_a_connection_that_broke_while_nobody_looked_is_made_anew(
    broker: MqttBroker, topic: str, listener: Listener
) -> None:
    made = publisher.Publisher(MqttServer.of("sink mqtt", options_of(broker)), "broken", 60.0)
    for ends in (lambda: made.publish(Publication(topic, b"2", False)), made.finish):
        made.publish(Publication(topic, b"1", False))
        made.finish()
        assert made._connection is not None
        made._connection.client.socket().shutdown(socket.SHUT_RDWR)
        wait_until(lambda: made._connection.lost is not None, "it is lost")  # type: ignore[union-attr]
        made._under_way[60_000] = Publication(topic, b"under way", False)
        made._progress_s -= 3_600  # an epoch is as long
        ends()
        made.finish()
    made.drop()
    wait_until(lambda: len(listener.heard) == 5, "all of them")
    assert listener.payloads == [b"1", b"under way", b"2", b"1", b"under way"]


@pytest.mark.parametrize("code", [0x82, 0x87])
def test_a_connection_that_the_broker_ends_with_nothing_under_way_refuses_nothing(
    broker: MqttBroker, topic: str, listener: Listener, code: int
) -> None:
    made = publisher.Publisher(MqttServer.of("sink mqtt", options_of(broker)), "idle", 60.0)
    for send in (made.publish, made._send):  # the latter as if it was lost in between
        made.publish(Publication(topic, b"1", False))
        made.finish()
        assert made._connection is not None
        made._connection.client.socket().shutdown(socket.SHUT_RDWR)
        wait_until(lambda: made._connection.lost is not None, "it is lost")  # type: ignore[union-attr]
        made._connection.lost_code = code
        send(Publication(topic, b"2", False))
        made.finish()
    made.drop()
    wait_until(lambda: len(listener.heard) == 4, "all of them")
    assert listener.payloads == [b"1", b"2"] * 2


@pytest.mark.parametrize("name", ["$SYS/x", "a/\1"])
def test_a_broker_that_hangs_up_on_a_message(broker: MqttBroker, name: str) -> None:
    with pytest.raises(SinkCommitRejectedError, match=r"hung up on .*: (Protocol|Malformed)"):
        write(broker, b"x", topic=name, retryFor="1 minute")


def test_a_broker_that_hangs_up_again_and_again(
    broker: MqttBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_FINAL", frozenset())
    with pytest.raises(SinkUnavailableError, match="for 4 s, and hangs up: Protocol error"):
        write(broker, b"x", topic="$SYS/x", retryFor="4 seconds")


@pytest.mark.parametrize("pair", [("a", "x" * 65_536), ("x" * 65_536, "a"), ("a", "\0")])
def test_properties_that_are_none(broker: MqttBroker, topic: str, pair: tuple[str, str]) -> None:
    schema = StructType().add("payload", "binary")
    schema = schema.add("properties", MapType(StringType(), StringType()))
    columns = pa.schema(
        [("payload", pa.binary()), ("properties", pa.map_(pa.string(), pa.string()))]
    )
    writer = task(sink(broker, schema, topic=topic))
    rows = [{"payload": b"x", "properties": [pair]}]
    with pytest.raises(SinkCommitRejectedError, match=r"property of a row .* 65,535 bytes"):
        writer.write(0, iter([pa.RecordBatch.from_pylist(rows, columns)]))
    writer.close()


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("payload", None, "NULL in payload"),
        ("topic", None, "NULL in payload, topic"),
        ("topic", "a/+", "name of no topic"),
        ("topic", "", "name of no topic"),
        ("topic", "x" * 65_536, "longer than"),
        ("retain", None, "retain"),
    ],
)
def test_rows_that_are_no_message(
    broker: MqttBroker, topic: str, column: str, value: Any, said: str
) -> None:
    schema = StructType().add("payload", "string").add("topic", "string")
    schema = schema.add("retain", "boolean")
    columns = pa.schema(
        [("payload", pa.string()), ("topic", pa.string()), ("retain", pa.bool_())]
    )  # fmt: skip
    row = {"payload": "x", "topic": topic, "retain": False, column: value}
    writer = task(sink(broker, schema))
    with pytest.raises(SinkCommitRejectedError, match=said):
        writer.write(0, iter([pa.RecordBatch.from_pylist([row], columns)]))
    writer.close()


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (("text",), {"topic": "a"}, "no column payload"),
        (("payload",), {}, "neither the option topic nor"),
        (("payload", "topic"), {"topic": "a"}, "both the option topic and"),
        (("payload", "retain"), {"topic": "a", "retain": "false"}, "both the option retain and"),
        (("payload", "id"), {"topic": "a"}, "a message has no id"),
        (("payload", "qos"), {"topic": "a"}, "a message has no qos"),
        (("payload",), {"topic": "a/#"}, "name of no topic"),
        (("payload",), {"topic": "a", "qos": "2"}, "no option 'qos'"),
        (("payload",), {"topic": "a", "retryFor": "0 seconds"}, "retryFor"),
        (("payload",), {"topic": "a", "clientId": "x"}, "Did you mean clientIdPrefix"),
    ],
)
def test_wrong_options(columns: Sequence[str], options: dict[str, str], said: str) -> None:
    schema = StructType()
    for name in columns:
        schema = schema.add(name, "string")
    with pytest.raises(ConfigError, match=said):
        MqttSink({"url": "mqtt://localhost", **options}).streamWriter(schema, overwrite=False)


def test_the_broker_is_tried_before_anything_runs(broker: MqttBroker, topic: str) -> None:
    sink(broker, topic=topic, retain="true").validate()
    login: dict[str, Any] = {"url": broker.url_login, "username": USER}
    with pytest.raises(ConfigError, match="Not authorized"):
        sink(broker, topic=topic, **login, password="wrong").validate()
    sink(broker, topic=topic, **login, password=PASSWORD).validate()
    sink(broker, topic=topic, url=broker.url_tls, caFile=str(broker.certificate)).validate()
    with pytest.raises(ConfigError, match="cannot be reached"):
        sink(broker, topic=topic, url="mqtt://127.0.0.1:1").validate()


def test_all_client_ids_have_the_prefix(
    broker: MqttBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    class Noting(MqttConnection):
        def __init__(self, server: Any, client_id: str, **given: Any) -> None:
            used.append(client_id)
            super().__init__(server, client_id, **given)

    monkeypatch.setattr(publisher, "MqttConnection", Noting)
    sink(broker, topic=topic, clientIdPrefix="plant").validate()
    write(broker, b"1", topic=topic, clientIdPrefix="plant")
    assert [each.partition("-")[0] for each in used] == ["plant", "plant"]


def test_what_micro_batches_call(broker: MqttBroker, topic: str, listener: Listener) -> None:
    writer: MqttWriter = pickle.loads(pickle.dumps(sink(broker, topic=f"{topic}/x")))
    assert writer.write(iter([payloads(b"1")])) == Published(1)
    wait_until(lambda: listener.payloads == [b"1"], "the message")
