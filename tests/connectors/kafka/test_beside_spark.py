"""Spark's own Kafka source and this one: the same plan, the same rows, one checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.jars import NoJarsError, jars
from tests.servers.kafka import Cluster

pytestmark = pytest.mark.spark
SPARKS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)


@pytest.fixture(scope="module")
def found(kafka: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the process has found: its classpath cannot be that of the other tests."""
    try:
        folder = jars(*SPARKS, alone=True)
    except NoJarsError as exc:
        pytest.skip(f"no Kafka source of Spark: {exc}")
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.connectors.kafka.beside_spark",
            kafka.bootstrap, tmp_path_factory.mktemp("spark"), folder,
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-8_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_a_checkpoint_moves_from_sparks_micro_batches_and_back(found: dict[str, Any]) -> None:
    told = found["micro_batches"]
    topic = told["topic"]
    assert told["first"] == told["first afterwards"] == f'\0v1\n{{"{topic}":{{"0":0,"1":0}}}}'
    assert told["lines"] == [
        f'{{"{topic}":{{"0":10,"1":10}}}}', f'{{"{topic}":{{"0":20,"1":20}}}}',
    ]  # fmt: skip
    assert told["here"] == {topic: {"0": 20, "1": 20}}
    assert told["committed"] == {topic: {"0": 30, "1": 30}}
    assert told["values"] == {"0": list(range(30)), "1": list(range(30))}


def test_a_checkpoint_moves_to_sparks_continuous_mode_and_back(found: dict[str, Any]) -> None:
    told = found["continuous"]
    topic = told["topic"]
    assert told["committed"] == [{topic: {"0": n, "1": n}} for n in (10, 20, 30)]
    assert told["read"] == 20
    assert told["first"] == f'\0v1\n{{"{topic}":{{"0":0,"1":0}}}}'


def test_a_dead_letter_names_the_record(found: dict[str, Any]) -> None:
    told = found["bad_records"]
    topic = told["topic"]
    assert told["values"] == {"0": [], "1": [0, 1, 3]}
    assert len(told["letters"]) == 2
    records = {}
    for source, offset, record in told["letters"]:
        assert source.startswith("kafka[")
        assert f"subscribe={topic}" in source
        assert json.loads(offset).keys() == {topic}
        assert json.loads(offset)[topic].keys() == {"1"}
        records[json.loads(record)["offset"]] = json.loads(record)["value"]
    assert records == {2: "b'two'", 4: "b'four'"}


def test_a_micro_batch_keeps_its_limit(found: dict[str, Any]) -> None:
    told = found["limited"]
    assert told["sizes"] == [6, 4]
    assert told["committed"] == told["wanted"]
