"""Queries that another Python runs than Airflow's."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.interpreter import check_interpreter
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ConfigError


def hook(monkeypatch: pytest.MonkeyPatch, python: str) -> ContinuousQueryHook:
    content = {"conn_type": "continuous", "extra": {"python": python}}
    monkeypatch.setenv("AIRFLOW_CONN_CONTINUOUS_DEFAULT", json.dumps(content))
    return ContinuousQueryHook()


def test_the_connection_goes_before_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CONTINUOUS__PYTHON", "/configured/python")
    assert hook(monkeypatch, "/said/python").settings.python == "/said/python"
    assert hook(monkeypatch, "").settings.python == "/configured/python"
    monkeypatch.delenv("AIRFLOW_CONN_CONTINUOUS_DEFAULT")
    assert ContinuousQueryHook().settings.python == "/configured/python"


def test_it_runs_the_engine_without_the_packages_of_this_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "dags")])
    submission = Submission({}, tmp_path, python="/other/python")
    assert submission.engine() == ("/other/python", "-m", "engine")
    folders = submission.environment()["PYTHONPATH"].split(os.pathsep)
    assert str(tmp_path / "dags") in folders, "modules beside the DAG file"
    assert sysconfig.get_path("purelib") not in folders
    assert sysconfig.get_path("stdlib") not in folders
    assert sysconfig.get_path("purelib") in query_environment()["PYTHONPATH"]


def test_a_python_that_cannot_run_the_engine_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spec: dict[str, Any]
) -> None:
    # This source tree is found by both in a development environment, and PySpark by one only.
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(ConfigError, match="cannot run the engine: ModuleNotFoundError"):
        hook(monkeypatch, bare).submit(spec)
    told, reason = hook(monkeypatch, bare).test_connection()
    assert not told
    assert "airflow-provider-continuous" in reason, "what to do"
    with pytest.raises(ConfigError, match="is no program"):
        hook(monkeypatch, "/nowhere/python").submit(spec)


def test_what_a_python_says_may_be_no_text(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nprintf 'K\\366ln\\n' >&2\nexit 1\n")
    program.chmod(0o700)

    with pytest.raises(ConfigError, match="cannot run the engine: K\ufffdln"):
        check_interpreter(str(program), os.environ)
