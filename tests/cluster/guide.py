"""The guides in docs/airflow/clusters.md: the tests use the connections that people are told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "airflow" / "clusters.md"
NODE_PYTHON = "/opt/nodes/bin/python"
WORD, ODD = "A_WORD", "'a' \"b\" $HOME `id` $(id) }} {{ <CPS> \\ $$ & %"
"""A variable of each query, which has to arrive as it is."""
_STEP = re.compile(r"`(\w+)`:\n\n```json\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"^ +(continuous .+)$", re.MULTILINE)
_SMALL = {"driver_memory": "512m", "executor_memory": "512m"}


def follow(
    guide: str,
    monkeypatch: pytest.MonkeyPatch,
    here: Mapping[str, str],
    conf: Mapping[str, str] | None = None,
    mode: str | None = None,
) -> None:
    """Create the connections of a guide.

    :param here: what texts of the guide are on this machine: host names, paths.
    :param conf: what this machine needs besides.
    :param mode: another deploy mode of the cluster's connection.
    """
    text = _of(guide)
    for there, own in here.items():
        assert there in text, f"the guide says nothing of {there}"
        text = text.replace(there, own)
    for name, content in _STEP.findall(text):
        connection: dict[str, Any] = json.loads(content)
        extra = connection["extra"]
        if connection["conn_type"] == "continuous":
            extra["environment"] = {"SPARK_LOCAL_IP": "127.0.0.1", WORD: ODD}
            more = {**_SMALL, "conf": dict(conf or {})}
            extra["spark_submit"] = {**extra.get("spark_submit", {}), **more}
        elif mode is not None:
            extra["deploy-mode"] = mode
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))


def commands(guide: str) -> list[list[str]]:
    """The commands of a guide, in words."""
    return [command.split() for command in _COMMAND.findall(_of(guide))]


def _of(guide: str) -> str:
    sections = re.split(r"^## ", GUIDES.read_text(), flags=re.MULTILINE)
    (found,) = (section for section in sections if section.startswith(f"{guide}\n"))
    return found
