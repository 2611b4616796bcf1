"""Delta Lake's own library for Spark and the sink: one table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.jars import NoJarsError, jars

pytest.importorskip("deltalake", reason="needs the extra delta")
pytestmark = pytest.mark.spark
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the process has found: its classpath cannot be that of the other tests."""
    try:
        folder = jars(DELTA)
    except NoJarsError as exc:
        pytest.skip(f"no Delta Lake for Spark: {exc}")
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.connectors.delta.beside_spark",
            tmp_path_factory.mktemp("delta"), folder,
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-8_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_spark_reads_every_type(found: dict[str, Any]) -> None:
    told = found["read_back"]
    assert told["wrong"] == 0
    assert told["whole"]
    assert told["found"] == [told["some"]]


def test_spark_makes_compacts_and_deletes_from_the_table(found: dict[str, Any]) -> None:
    told = found["kept_in_order"]
    assert told["whole"]
    assert told["deleted"]
    assert told["back"] == []
    assert told["more"] > 0
