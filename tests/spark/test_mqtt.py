"""A specification from a topic of MQTT to another, by Spark's plan, started twice."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("paho.mqtt.client", reason="needs the extra mqtt")

from pyspark.sql import SparkSession

from engine.query.registration import register
from engine.query.spec import build, load_spec
from tests.servers.mqtt import PASSWORD, USER, running_mqtt
from tests.servers.mqtt_clients import Listener, publish
from tests.servers.process import NoServerError
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 60


def test_messages_go_from_one_topic_to_another(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(spark)
    try:
        with (
            running_mqtt(tmp_path / "broker") as broker,
            Listener(broker, "out/#").listening() as listener,
        ):
            login = {"url": broker.url_login, "username": USER, "password": PASSWORD}
            spec = load_spec(
                {
                    "name": "temperatures",
                    "source": {"format": "mqtt", "options": {**login, "topics": "in/+"}},
                    "sql": "SELECT concat('out/', split(topic, '/')[1]) AS topic, "
                    "concat(CAST(payload AS STRING), properties['unit']) AS payload "
                    "FROM source WHERE payload != X'62'",
                    "sink": {"format": "mqtt", "options": login},
                    "trigger": {"continuous": "50 milliseconds"},
                    "checkpoint_location": str(tmp_path / "checkpoint"),
                }
            )
            for number in range(2):
                query = build(spec, spark).start()
                query.explain()
                for payload in (b"a%d" % number, b"b"):
                    publish(broker, "in/oven", payload, properties=[("unit", "C")])
                wait_until(
                    lambda: len(listener.heard) > number,  # noqa: B023
                    "the message",
                    WAIT_S,
                )
                query.drain(WAIT_S)
    except NoServerError as exc:
        pytest.skip(str(exc))
    assert listener.heard == [("out/oven", f"a{each}C".encode(), 1, False, ()) for each in (0, 1)]
    shown = capsys.readouterr().out
    assert "mqtt" in shown
    assert PASSWORD not in shown
    kept = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert not [path for path in kept if PASSWORD.encode() in path.read_bytes()]
