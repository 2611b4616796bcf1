"""What a Python has to have to run a task, and how its refusal reaches the driver."""

from __future__ import annotations

import socket
import sys

import pyarrow as pa
import pytest

from engine.spark import workers
from engine.spark.workers import look_at_worker, refusal


def test_a_python_that_has_all() -> None:
    look_at_worker()()


@pytest.mark.parametrize(
    ("home", "name", "reason"),
    [
        (workers, "__version__", r"has version .* of the engine, and the driver 7\.0\.0"),
        (pa, "__version__", r"has pyarrow 7\.0\.0, older than 18"),
    ],
)
def test_what_is_wrong_is_told_with_where_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, home: object, name: str, reason: str
) -> None:
    monkeypatch.setattr(home, name, "7.0.0")
    with pytest.raises(RuntimeError, match=reason) as caught:
        look_at_worker()()
    job = f"Job aborted due to stage failure: lost task\nRuntimeError: {caught.value}\n\tat org"
    refused = refusal(RuntimeError(job))
    assert refused is not None
    assert f"{sys.executable} on {socket.gethostname()} has " in str(refused)
    assert "PYSPARK_PYTHON" in str(refused)


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (
            "Job aborted\npyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
            "worker has different version: 3.10 than that in driver: 3.12",
            "different version: 3.10 than that in driver: 3.12",
        ),
        ('Job aborted: Cannot run program "/no/python": error=2', '"/no/python"'),
    ],
)
def test_what_spark_itself_refuses_is_told_alike(job: str, told: str) -> None:
    assert told in str(refusal(RuntimeError(job)))


def test_a_job_that_failed_for_another_reason() -> None:
    assert refusal(RuntimeError("Job aborted\nValueError: three is too many")) is None
