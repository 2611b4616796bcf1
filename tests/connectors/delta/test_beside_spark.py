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
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-8_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_spark_reads_every_type(found: dict[str, Any]) -> None:
    told = found["read_back"]
    assert told["wrong"] == 0
    assert told["whole"]
    assert told["found"] == [told["some"]]


def test_spark_compacts_deletes_and_vacuums_between_two_runs(found: dict[str, Any]) -> None:
    assert found["kept_in_order"]["whole"]


def test_a_table_that_spark_has_made(found: dict[str, Any]) -> None:
    assert found["made_by_spark"] == {"defaults": True, "deletion vectors": True}
