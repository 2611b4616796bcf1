"""What Airflow is told about the provider."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider_continuous.compat import RELEASE
from airflow_provider_continuous.get_provider_info import get_provider_info

INFO = get_provider_info()
_OF_EVENTS = {f"airflow_provider_continuous.triggers.{name}" for name in ("events", "periods")}
NEW = _OF_EVENTS if RELEASE < (3, 3) else set()
"""What this Airflow cannot import; it is a hint in its documentation only."""
ROOT = Path(__file__).parents[2]
KINDS = ("operators", "sensors", "hooks", "triggers")
MODULES = [
    name
    for kind in KINDS
    for entry in INFO[kind]
    for name in entry["python-modules"]
    if name not in NEW
]


def test_it_is_valid_for_airflow() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())

    jsonschema.validate(INFO, schema)

    assert INFO["package-name"] == "airflow-provider-continuous"


def test_it_is_documented_as_providers_are() -> None:
    """Source: ``airflow/provider.yaml.schema.json``, of Airflow's own providers."""
    rules = json.loads((files("airflow") / "provider.yaml.schema.json").read_text())
    rules = rules["properties"]["integrations"]["items"]
    (integration,) = INFO["integrations"]
    jsonschema.validate(integration, rules)
    assert integration["external-doc-url"].startswith("https://")
    places = [*integration["how-to-guide"], f"/docs{integration['logo']}"]
    assert [each for each in places if not (ROOT / each.removeprefix("/")).is_file()] == []
    said = {entry["integration-name"] for kind in KINDS for entry in INFO[kind]}
    assert said == {integration["integration-name"]}
    assert (ROOT / "CHANGELOG.md").is_file()


def test_the_entry_point_leads_to_it() -> None:
    found = importlib.metadata.entry_points(group="apache_airflow_provider")

    (ours,) = [entry for entry in found if entry.value.startswith("airflow_provider_continuous")]

    assert ours.load() is get_provider_info


@pytest.mark.parametrize("name", MODULES)
def test_every_module_it_names_exists(name: str) -> None:
    importlib.import_module(name)


def test_the_connection_type_leads_to_the_hook() -> None:
    (kind,) = INFO["connection-types"]
    module, _, name = kind["hook-class-name"].rpartition(".")

    hook = getattr(importlib.import_module(module), name)

    assert kind["connection-type"] == hook.conn_type == "continuous"
    assert hook.conn_name_attr in inspect.signature(hook).parameters
    assert hook.hook_name == kind["hook-name"]


def test_the_connection_form_reaches_airflow() -> None:
    runtime = pytest.importorskip("airflow.sdk.providers_manager_runtime", reason="Airflow 3.2+")
    manager = ProvidersManager()  # type: ignore[no-untyped-call]

    found = runtime.ProvidersManagerTaskRuntime().hooks["continuous"]

    assert found is not None
    assert found.hook_name == "Continuous query"
    assert "password" in manager.field_behaviours["continuous"]["hidden_fields"]
    fields = {name for name in manager.connection_form_widgets if "__continuous__" in name}
    assert {name.partition("__continuous__")[2] for name in fields} == {
        "deploy-mode",
        "spark-conn-id",
        "spark_submit",
        "kubernetes-conn-id",
        "spark-application",
        "environment",
        "environment-from",
        "checkpoint-root",
        "log-dir",
        "python",
        "conf",
    }


def test_importing_it_imports_no_airflow() -> None:
    loaded = _loaded_by("from airflow_provider_continuous.get_provider_info import *")

    assert not {"airflow", "engine"} & loaded


def test_the_door_is_light() -> None:
    loaded = _loaded_by("\n".join(f"import {module}" for module in MODULES))

    assert "airflow" in loaded
    assert not {"pyspark", "pandas", "numpy", "pyarrow", "py4j"} & loaded


def _loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules: list[Any] = json.loads(done.stderr.splitlines()[-1])
    return {name.partition(".")[0] for name in modules}
