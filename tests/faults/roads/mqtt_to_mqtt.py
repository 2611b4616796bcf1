"""Topics of MQTT to others, at least once: what the broker has taken is lost nowhere, and may come
again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import StructType

from engine.checkpoint.first_offsets import first_offsets_folder
from engine.execution.definition import StreamBinding
from engine.expressions.types import schema_to_spark
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.mqtt.data_source import MqttSink
from engine.sinks.mqtt.publisher import Publisher
from engine.sources.mqtt.data_source import MqttSource
from engine.sources.mqtt.partition_reader import MqttPartitionReader
from engine.sources.mqtt.rows import SCHEMA
from engine.sources.mqtt.session import SessionOptions
from tests.faults.roads.beside import beside
from tests.faults.roads.road import Road, Setup
from tests.servers.mqtt import MqttBroker, running_mqtt
from tests.servers.mqtt_clients import HOUR_S, Listener, connected

FEED_EVERY_S = 0.01
SINK = "the sink's broker"
QUIET_S = 60.0
"""What has not come when nothing came for so long is lost."""
COLUMNS = pa.schema([SCHEMA.field("payload")])


def _acknowledged_when_read() -> None:
    right = MqttPartitionReader.read

    def read(self: Any, timeout_s: float) -> Any:
        found = right(self, timeout_s)
        self.committed(self.offset)
        return found

    MqttPartitionReader.read = read  # type: ignore[method-assign]


def _forgets_what_was_under_way() -> None:
    right = Publisher._send_again

    def send_again(self: Any) -> None:
        self._under_way.clear()
        right(self)

    Publisher._send_again = send_again  # type: ignore[method-assign]


def _begins_anew() -> None:
    def resume(self: Any, known: Any, away: Any) -> Any:
        return self.begin(away), self.topics

    SessionOptions.resume = resume  # type: ignore[method-assign]


class MqttToMqtt(Road):
    """Each broker has one end of all worlds: were there a single one, what the sink loses with it
    would come again from the source."""

    level = "L5 MQTT to MQTT"
    repeats = True
    mutants: ClassVar = {
        "a message is acknowledged when it is read": _acknowledged_when_read,
        "what was under way when the broker was lost is taken for taken": (
            _forgets_what_was_under_way
        ),
        "each start begins a session of its own": _begins_anew,
    }
    brought_out: ClassVar = {
        "a message is acknowledged when it is read": ("killed at any time",),
        "what was under way when the broker was lost is taken for taken": (f"{SINK} killed",),
        "each start begins a session of its own": ("killed at any time",),
    }

    def __init__(self) -> None:
        super().__init__()
        self._taken: dict[str, set[bytes]] = {}
        self._listeners: dict[str, Listener] = {}

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with running_mqtt(folder / "source") as source, running_mqtt(folder / "sink") as sink:
            self._source = self.servers["the broker"] = source
            self._sink = self.servers[SINK] = sink
            yield

    def make(self, name: str) -> dict[str, str]:
        self._taken[name] = set()
        urls = {"source": self._source.url, "sink": self._sink.url}
        return {**urls, "in": f"in/{name}", "out": f"out/{name}", "name": name}

    @contextmanager
    def feeding(self, setup: Setup) -> Iterator[None]:
        where, stop = setup.where, threading.Event()
        taken = self._taken[where["name"]]
        listener = self._listeners[where["name"]] = Listener(self._sink, where["out"])
        with listener.listening():
            begun = Path(setup.checkpoint) / first_offsets_folder(0) / "0"

            def feed() -> None:
                while not begun.exists() and not stop.wait(FEED_EVERY_S):
                    pass  # what comes before there is a session is nobody's
                _feed(self._source, where["in"], taken, stop)

            with beside(feed, stop):
                yield
            _await_quiet(lambda: taken <= set(listener.payloads), lambda: len(listener.heard))

    def went_in(self, setup: Setup) -> Counter[bytes]:
        return Counter(self._taken[setup.where["name"]])

    def came_out(self, setup: Setup) -> Counter[bytes]:
        return Counter(self._listeners[setup.where["name"]].payloads)

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        source = MqttSource({"url": setup.where["source"], "topics": setup.where["in"]})
        reader = source.continuousReader(source.schema()).prune(COLUMNS.names)
        assert reader is not None
        return StreamBinding(
            Pipeline(SourceRelation("mqtt", {}, COLUMNS), (), COLUMNS), reader, "mqtt"
        )

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        where = setup.where
        sink = MqttSink({"url": where["sink"], "topic": where["out"], "retryFor": "10 seconds"})
        columns = StructType.fromJson(schema_to_spark(COLUMNS))
        return bind_writer(sink.streamWriter(columns, overwrite=False), "mqtt")


def _feed(broker: MqttBroker, topic: str, taken: set[bytes], stop: threading.Event) -> None:
    """:param taken: gets what the broker has acknowledged."""
    with connected(broker, f"feed-{topic}", HOUR_S) as client:
        sent: dict[int, bytes] = {}
        answered: set[int] = set()
        client.on_publish = lambda _client, _data, packet, *_: answered.add(packet)

        def look() -> bool:
            for packet in answered & sent.keys():
                taken.add(sent.pop(packet))
                answered.discard(packet)
            return not sent

        for number in count():
            if stop.wait(FEED_EVERY_S):
                break
            look()
            if len(sent) < 50:  # while the broker is away nothing is to pile up
                payload = b"%d" % number
                sent[client.publish(topic, payload, 1).mid] = payload
        _await_quiet(look, lambda: len(sent))


def _await_quiet(is_done: Callable[[], bool], progress: Callable[[], int]) -> None:
    """Until it is done, or nothing happens any more."""
    pause, since_s, last = 0.1, 0.0, progress()
    while not is_done() and since_s < QUIET_S:
        threading.Event().wait(pause)
        since_s = 0.0 if progress() != last else since_s + pause
        last = progress()


ROAD = MqttToMqtt
