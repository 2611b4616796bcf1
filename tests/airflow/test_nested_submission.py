"""Cluster mode on a standalone cluster is two spark-submits: this machine's starts a Java machine
on a worker, and that is the driver's own. What each of them has to be told."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.plan import make_plan
from airflow_provider_continuous.deploy.submission import Submission
from engine.errors import ConfigError

SECRET = "correct-horse-battery"


@pytest.fixture
def submission(spec: dict[str, Any], tmp_path: Path) -> Submission:
    return Submission(spec, tmp_path / "logs")


def both(
    monkeypatch: pytest.MonkeyPatch, submission: Submission, extra: Any = None, **given: Any
) -> tuple[list[str], list[str]]:
    """What the outer one is told, and the inner one."""
    said = {"deploy-mode": "cluster", **(extra or {})}
    connection = {"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": said}
    monkeypatch.setenv("AIRFLOW_CONN_A_CLUSTER", json.dumps(connection))
    options = SubmitOptions.read(given)
    command = make_plan(submission, Cluster.find("a_cluster", options), options).command
    inner = len(command) - command[::-1].index("--master") - 1
    return command[:inner], command[inner:]


def test_what_a_java_machine_must_know_as_it_starts(
    monkeypatch: pytest.MonkeyPatch, submission: Submission
) -> None:
    """That is started by the outer one."""
    for words in both(monkeypatch, submission, driver_class_path="/opt/a.jar", driver_memory=2048):
        assert words[words.index("--driver-class-path") + 1] == "/opt/a.jar"
        assert words[words.index("--driver-memory") + 1] == "2048m"


@pytest.mark.parametrize("is_here", [True, False])
def test_what_a_properties_file_says_of_that_java_machine(
    monkeypatch: pytest.MonkeyPatch,
    submission: Submission,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    is_here: bool,
) -> None:
    """The file is the inner one's: Spark would write all of it on the driver's command line."""
    own = tmp_path / "own.properties"
    if is_here:
        own.write_text(
            "spark.driver.memory 3g\nspark.driver.cores: 1\nspark.driver.password=correct-horse\n"
            "spark.hadoop.fs.s3a.access.key = correct-horse\n"
        )
    submission.document["conf"] = {"spark.driver.cores": 2}  # type: ignore[index]

    outer, inner = both(monkeypatch, submission, properties_file=str(own))

    assert inner[inner.index("--properties-file") + 1] == str(own)
    assert "--properties-file" not in outer
    assert "spark.driver.cores=2" in outer
    assert ("spark.driver.memory=3g" in outer) is is_here
    assert "correct-horse" not in " ".join(outer)
    said = [each.getMessage() for each in caplog.records]
    assert any("is not on this machine" in text for text in said) is not is_here


def test_a_key_table_is_refused(monkeypatch: pytest.MonkeyPatch, submission: Submission) -> None:
    """Nobody would log in with it: the principal alone was sent along."""
    keytab = {"keytab": base64.b64encode(SECRET.encode()).decode(), "principal": "streams@REALM"}

    with pytest.raises(ConfigError, match=r"(?s)'a_cluster' has a keytab.* log in on the workers"):
        both(monkeypatch, submission, keytab)


def test_a_password_that_an_option_would_hide_is_refused(
    monkeypatch: pytest.MonkeyPatch, submission: Submission
) -> None:
    submission.document["conf"] = {  # type: ignore[index]
        "spark.submit.pyFiles": f"https://reader:{SECRET}@packages.example/a.zip"
    }

    with pytest.raises(ConfigError, match="py_files holds a password"):
        both(monkeypatch, submission, py_files="b.zip")
