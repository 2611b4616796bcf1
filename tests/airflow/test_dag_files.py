"""The example DAGs, as Airflow's DAG processor sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_continuous.compat import RELEASE

Dags = dict[str, tuple[str, list[str], list[str], dict[str, str]]]
Parsed = tuple[dict[str, str], list[str], Dags]

DAGS = Path(__file__).parents[2] / "dags"
WITHOUT = {"asset_triggered"} if RELEASE < (3, 3) else set()
"""Epochs as asset events need Airflow 3.3."""
_PARSE = """
import json, sys
from pathlib import Path
try:
    from airflow.dag_processing.dagbag import BundleDagBag
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import BundleDagBag
bag = BundleDagBag(sys.argv[1], bundle_path=Path(sys.argv[1]))
heavy = {"pyspark", "pandas", "numpy", "pyarrow"} & set(sys.modules)
dags = {
    name: [
        dag.doc_md or "",
        sorted(dag.task_ids),
        [task.task_id for task in dag.tasks if task.is_setup and task.on_kill_action != "drain"],
        {param: str(value) for param, value in dag.params.dump().items()},
    ]
    for name, dag in bag.dags.items()
}
Path(sys.argv[2]).write_text(json.dumps([bag.import_errors, sorted(heavy), dags]))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    result = tmp_path_factory.mktemp("parsed") / "dags.json"
    environment = {**os.environ, "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600"}
    program = [sys.executable, "-c", _PARSE, str(DAGS), str(result)]
    subprocess.run(program, check=True, env=environment)
    errors, heavy, dags = json.loads(result.read_text())
    return errors, heavy, dags


def test_they_parse_without_spark(parsed: Parsed) -> None:
    errors, heavy, _ = parsed

    assert all("came with Airflow 3.3" in error for error in errors.values()), errors
    assert {Path(name).stem for name in errors} == WITHOUT
    assert heavy == []


def test_a_start_whose_teardown_drains_drains_itself_when_it_fails_late(parsed: Parsed) -> None:
    """A teardown does not run when its setup has failed."""
    assert {name: starts for name, (_, _, starts, _) in parsed[2].items() if starts} == {}


def test_they_are_all_there_and_documented(
    parsed: Parsed,
) -> None:
    dags = parsed[2]

    assert {"flights_demo", "scheduled_pruning", "wait_for_epoch"} <= set(dags)
    assert set(dags) == {path.stem for path in DAGS.glob("*.py")} - WITHOUT
    assert {"start", "wait_for_epochs", "compare", "prune", "drain"} <= set(dags["flights_demo"][1])
    for name, (documentation, *_) in dags.items():
        assert len(documentation) > 200, name


def test_who_looks_at_all_checkpoints_finds_those_of_the_others(parsed: Parsed) -> None:
    params = {name: of for name, (*_, of) in parsed[2].items()}
    roots = {params[name]["root"] for name in ("query_metrics", "scheduled_pruning")}

    places = {str(Path(of["checkpoint"]).parent) for of in params.values() if "checkpoint" in of}
    assert places | {f"{params['kafka_to_delta']['folder']}/checkpoints"} == roots
