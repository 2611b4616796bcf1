"""``@task.continuous_query``."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.operators.query import (
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
)


@pytest.fixture
def operator(tmp_path: Path) -> Any:
    """A task made by the decorator."""

    def make(*args: Any, call: dict[str, Any] | None = None, **arguments: Any) -> Any:
        given = {
            "checkpoint_location": str(tmp_path / "checkpoint"),
            "deferrable": False,
            "poll_interval": 0.05,
        }

        with DAG("queries", schedule=None):

            @task.continuous_query(**{**given, **arguments})
            def rows(spark, table, limit=1):  # type: ignore[no-untyped-def]
                import json as module  # what it needs, it imports itself

                return module.dumps([spark, table, limit])

            return rows(*args, **(call or {})).operator

    return make


def module_of(tmp_path: Path) -> Path:
    (module,) = (tmp_path / "checkpoint.logs" / "code").rglob("*.py")
    return module


@pytest.fixture(autouse=True)
def log_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))


def test_the_function_reaches_the_query(
    operator: Any, submitted: list[SubmittedQuery], context: Any, tmp_path: Path
) -> None:
    started = operator(call={"table": 'it\'s a "table"', "limit": 3})
    assert isinstance(started, StartContinuousQueryOperator)

    result = started.execute(context)

    assert result["checkpoint_location"] == str(tmp_path / "checkpoint")
    assert len(submitted) == 1
    module = module_of(tmp_path)
    assert module.stat().st_mode & 0o777 == 0o600
    code = f"import {module.stem} as m; print(m.query_of_this_task('the session'))"
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(module.parent)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == ["the session", 'it\'s a "table"', 3]


def test_the_same_call_is_the_same_module(
    operator: Any, submitted: list[SubmittedQuery], context: Any, tmp_path: Path
) -> None:
    for _ in range(2):
        operator("a").execute(context)

    assert module_of(tmp_path).exists()
    assert len(submitted) == 1


def test_it_supervises(operator: Any, submitted: list[SubmittedQuery], context: Any) -> None:
    supervised = operator("a", supervise=True, until_epoch=2)
    assert isinstance(supervised, RunContinuousQueryOperator)

    assert supervised.execute(context)["reason"] == "epoch"


def test_arguments_are_checked_when_the_dag_is_parsed(operator: Any) -> None:
    with pytest.raises(TypeError, match="table"):
        operator()


def test_airflows_context_is_not_filled_in(tmp_path: Path) -> None:
    """As ``@task`` does: the query would get None."""

    def of_a_day(spark, table, ds=None):  # type: ignore[no-untyped-def]
        return [spark, table, ds]

    rows: Any = task.continuous_query(checkpoint_location=str(tmp_path))(of_a_day)
    with DAG("queries", schedule=None):
        with pytest.raises(ValueError, match=r"ds is of Airflow's context, .* take the parameter"):
            rows("orders")
        handed = rows("orders", ds="{{ ds }}").operator
        mapped = rows.expand(table=["orders", "customers"]).operator

    with pytest.raises(ValueError, match="ds is of Airflow's context"):
        mapped.unmap({"op_kwargs": {"table": "orders"}})  # as a worker does
    assert (list(handed.op_args), handed.op_kwargs) == (["orders"], {"ds": "{{ ds }}"})


def test_an_argument_that_is_no_json(
    operator: Any, submitted: list[SubmittedQuery], context: Any
) -> None:
    with pytest.raises(AirflowFailException, match="An argument of rows cannot be handed"):
        operator(object()).execute(context)

    assert submitted == []


def test_its_fields_are_templated(operator: Any) -> None:
    fields = operator("a").template_fields

    assert {"op_args", "op_kwargs", "settings", "checkpoint_location", "query_name"} <= set(fields)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({}, "rows"),
        ({"settings": {"name": "orders"}}, "orders"),
        ({"settings": {"name": "orders"}, "query_name": "delays"}, "delays"),
    ],
)
def test_the_name_of_its_query(operator: Any, said: dict[str, Any], name: str) -> None:
    task = operator("words", **said)

    assert task._document(task._query_hook())["name"] == name


def test_airflow_knows_the_decorator() -> None:
    module = importlib.import_module("airflow_provider_continuous.decorators.continuous_query")

    assert task.continuous_query is module.continuous_query_task
