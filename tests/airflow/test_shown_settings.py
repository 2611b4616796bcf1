"""What Spark itself shows of what a query was told in private: in its event log, from which its
pages are made."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.java_properties import read
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.plan import make_plan
from airflow_provider_continuous.deploy.submission import Submission
from engine.errors import ConfigError

SETTING = "spark.redaction.regex"
VARIABLES = {"DB_PASS": "correct-horse", "API_KEY": "battery-staple"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its settings on this machine."""
    said = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_A_CLUSTER", json.dumps(said))
    folder = tmp_path / "conf"
    folder.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    return folder / "spark-defaults.conf"


def sent(spec: dict[str, Any], tmp_path: Path, **given: Any) -> dict[str, str]:
    """What spark-submit is told in private."""
    submission = Submission(spec, tmp_path / "logs", variables=VARIABLES)
    options = SubmitOptions.read(given)
    make_plan(submission, Cluster.find("a_cluster", options), options)
    return read(submission.path(".properties").read_text())


@pytest.mark.spark
def test_spark_hides_what_is_private_and_what_the_site_hides(
    site: Path, spec: dict[str, Any], tmp_path: Path
) -> None:
    site.write_text(f"{SETTING} (?i)region|\\\n  secret\n")
    spec["conf"] = {"spark.hadoop.account.key": "tr0ub4dor"}
    properties, events = tmp_path / "its.properties", tmp_path / "events"
    events.mkdir()
    told = sent(spec, tmp_path)
    properties.write_text((next((tmp_path / "logs").glob("*.properties"))).read_text())
    application = tmp_path / "application.py"
    application.write_text("from pyspark import SparkContext\nSparkContext().stop()\n")
    shown = {"spark.site.Region": "hidden-by-site", "spark.any.setting": "shown-by-all"}

    subprocess.run(
        [
            *(Cluster.find("a_cluster", SubmitOptions()).find_binary(), "--load-spark-defaults"),
            *("--master", "local[1]", "--properties-file", properties),
            *("--conf", "spark.eventLog.compress=false"),
            *("--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={events}"),
            *(word for each in shown.items() for word in ("--conf", "=".join(each))),
            application,
        ],
        env={**query_environment(), "SPARK_CONF_DIR": str(site.parent)},
        check=True,
        timeout=300,
    )

    (log,) = (path for path in events.rglob("*") if path.is_file() and "events" in path.name)
    logged = log.read_text()
    assert "shown-by-all" in logged
    assert "spark.yarn.appMasterEnv.DB_PASS" in logged
    for secret in (*VARIABLES.values(), "tr0ub4dor", "hidden-by-site"):
        assert secret not in logged
    assert told["spark.yarn.appMasterEnv.API_KEY"] == "battery-staple"


def test_a_properties_file_is_read_with_the_secrets(
    site: Path, spec: dict[str, Any], tmp_path: Path
) -> None:
    own = tmp_path / "own.properties"
    own.write_text("spark.b=1")
    spec["conf"] = {"spark.hadoop.fs.s3a.secret.key": "correct-horse"}
    submission = Submission(spec, tmp_path / "logs")
    options = SubmitOptions.read({"properties_file": str(own), "deploy_mode": "client"})

    command = make_plan(submission, Cluster.find("a_cluster", options), options).command

    assert "--load-spark-defaults" not in command
    written = submission.path(".properties").read_text()
    assert written.startswith("spark.b=1\nspark.hadoop.fs.s3a.secret.key=correct-horse\n")
    assert list(read(written)) == ["spark.b", "spark.hadoop.fs.s3a.secret.key", SETTING]


def test_the_querys_own_counts_before_the_sites(
    site: Path, spec: dict[str, Any], tmp_path: Path
) -> None:
    site.write_text(f"{SETTING} of-site")
    own = tmp_path / "own.properties"
    own.write_text(f"{SETTING}=of-file")

    assert sent(spec, tmp_path)[SETTING].endswith("|of-site")
    assert sent(spec, tmp_path, properties_file=str(own))[SETTING].endswith("|of-file")
    found = sent(spec, tmp_path, properties_file=str(own), conf={SETTING: "of-query"})
    assert found[SETTING].endswith("|of-query")
    site.unlink()
    assert sent(spec, tmp_path)[SETTING].endswith("access[.]?key")


@pytest.mark.parametrize("conf", [{}, {SETTING: "of-query"}])
def test_a_properties_file_must_be_utf_8(
    site: Path, spec: dict[str, Any], tmp_path: Path, conf: dict[str, str]
) -> None:
    own = tmp_path / "own.properties"
    own.write_bytes(b"spark.app.name=K\xf6ln\n")

    with pytest.raises(ConfigError, match=r"cannot be read: 'utf-8' codec"):
        sent(spec, tmp_path, properties_file=str(own), conf=conf)


def test_what_sets_sparks_environment_may_say_anything(
    site: Path, spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/k\xf6ln"))
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(f"{SETTING} of-site")
    (folder / "spark-env.sh").write_bytes(b"echo K\xf6ln\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))

    assert sent(spec, tmp_path)[SETTING].endswith("|of-site")


def test_the_sites_cannot_be_found(
    site: Path,
    spec: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A program that somebody has put around spark-submit: what it sets is not known."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nSPARK_CONF_DIR=/etc/spark exec /opt/spark/bin/spark-submit\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.delenv("SPARK_HOME", raising=False)

    with caplog.at_level(logging.WARNING):
        assert SETTING not in sent(spec, tmp_path)

    assert any(f"Say {SETTING}" in each.getMessage() for each in caplog.records)
