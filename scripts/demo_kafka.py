"""``make demo-kafka``: real departures go through Kafka, a continuous query, Kafka again and
another continuous query into a table of Delta; a DAG starts both, waits until all is there, and
compares every row with the same query run in batch.

Starts and ends everything itself: a broker of Kafka, a feeder, Airflow's four processes, and,
through the DAG, the queries. They log in to Kafka by a connection of Airflow.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from play import ROOT, Demo, Feeder, epochs, fresh, pairs, say

sys.path.insert(0, str(ROOT))

from tests.servers.jars import NoJarsError
from tests.servers.kafka import PASSWORD, USER, Kafka, running_kafka

FOLDER = ROOT / ".demo-kafka"
CHECKPOINTS = {name: FOLDER / "checkpoints" / name for name in ("delays", "table")}
DONE = FOLDER / "_SUCCESS"
SHOWN_ROWS = 5


def describe(step: str, result: dict[str, Any]) -> str:
    """What a person wants to see of a step's result."""
    kind, _, name = step.partition("_")
    if kind == "drain":
        return f"{pairs(result)}\n\n{epochs(CHECKPOINTS[name])}"
    if step in ("all_delays", "all_rows"):
        return f"epoch {result['epoch']} has it, committed at {result['committed_at']}"
    if step == "compare":
        from deltalake import DeltaTable

        rows = DeltaTable(FOLDER / "table").to_pyarrow_dataset().head(SHOWN_ROWS).to_pandas()
        return f"{pairs(result)}\n\n{rows.to_string(index=False)}"
    return pairs(result)


def demo(kafka: Kafka) -> Demo:
    """The demo with this broker."""
    login = {
        "bootstrap.servers": kafka.bootstrap_sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    return Demo(
        FOLDER,
        "kafka_to_delta",
        (
            "start_delays",
            "start_table",
            "arrived",
            "all_delays",
            "all_rows",
            "compare",
            "drain_delays",
            "drain_table",
        ),
        ("arrived",),
        tuple(CHECKPOINTS.values()),
        describe,
        {
            "CONTINUOUS_DEMO_DIR": str(FOLDER),
            "AIRFLOW_CONN_FLIGHTS_KAFKA": json.dumps({"conn_type": "kafka", "extra": login}),
        },
    )


def feeder(kafka: Kafka) -> Feeder:
    """What sends departures to this broker."""
    arguments = ("--servers", kafka.bootstrap, "--topic", "departures", "--done", str(DONE))
    text = f"Departures of 2013 go to the topic departures at {kafka.bootstrap}"
    return Feeder(text, "flights.feed_kafka", arguments)


def main() -> int:
    """Run the demo and return the exit code."""
    fresh(FOLDER)
    say("Starting Kafka")
    try:
        with running_kafka(FOLDER / "broker") as kafka:
            for topic in ("departures", "delays"):
                kafka.create_topic(topic, partitions=2)
            return demo(kafka).play(feeder(kafka))
    except NoJarsError as error:
        print(f"There is no Kafka: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
