"""A ``spark-submit`` that is a shell script of the test."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.hooks.query import ContinuousQueryHook


class Submitting:
    """A hook whose spark-submit is a script; the last word of its command is the specification."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch, self._folder = monkeypatch, folder
        extra = {"deploy-mode": "spark-submit", "spark-conn-id": "a_cluster"}
        self._connect("continuous_default", conn_type="continuous", extra=extra)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        monkeypatch.setenv("PATH", path)

    def does(self, script: str, mode: str) -> ContinuousQueryHook:
        program = self._folder / "spark-submit"
        program.write_text(f"#!/bin/sh\ncd {self._folder}\nfor spec; do :; done\n{script}\n")
        program.chmod(0o700)
        extra = {"deploy-mode": mode}
        self._connect("a_cluster", conn_type="spark", host="yarn", extra=extra)
        return ContinuousQueryHook()

    def _connect(self, name: str, **content: Any) -> None:
        self._monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(content))
