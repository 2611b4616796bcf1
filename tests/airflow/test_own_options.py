"""Sizes, environment and secrets of one query, over those of the connection: what spark-submit is
told, where it is a script that notes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.options import SubmitOptions, options_over
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.deploy.submitted import QueryStartError
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from engine.checkpoint.storage.opening import open_storage
from engine.errors import ConfigError

Connect = Callable[..., None]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, connection: Connect) -> Path:
    """What spark-submit was told: its words and its environment, a line each; then it fails."""
    told, program = tmp_path / "told", tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {told}\nenv >> {told}\nexit 1\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    submit = {"executor_memory": "1g", "num_executors": 2, "conf": {"spark.a": 1, "spark.b": 1}}
    extra = {
        "deploy-mode": "spark-submit",
        "spark_submit": submit,
        "environment": {"REGION": "eu", "COLOUR": "blue"},
    }
    connection("continuous_default", "continuous", extra=extra)
    connection("spark_default", "spark", host="yarn", extra={"deploy-mode": "client"})
    connection("a_vault", "generic", password="correct-horse")
    return told


def test_a_query_has_its_own(spec: dict[str, Any], context: Any, told: Path) -> None:
    task = StartContinuousQueryOperator(
        task_id="start",
        spec=spec,
        deferrable=False,
        environment={"REGION": "us"},
        secrets={"WORD": "a_vault.password"},
        spark_submit={"executor_memory": "4g", "executor_cores": 3, "conf": {"spark.b": 2}},
    )

    with pytest.raises(QueryStartError, match="exit code 1"):
        task.execute(context)

    words, *environment = told.read_text().splitlines()
    for part in ("--executor-memory 4g", "--num-executors 2", "--executor-cores 3"):
        assert part in words
    assert "--conf spark.a=1 --conf spark.b=2" in words
    assert {"REGION=us", "COLOUR=blue", "WORD=correct-horse"} <= set(environment)
    assert "correct-horse" not in words


def test_a_cluster_is_told_the_submissions_name(
    spec: dict[str, Any], told: Path, connection: Connect
) -> None:
    connection("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    hook = ContinuousQueryHook(spark_submit={"conf": {"spark.yarn.tags": "mine"}})

    submitted = hook.submit(hook.specification(spec))
    assert submitted.process.wait(120) == 1

    assert submitted.handle.backend == "yarn"
    assert f"--conf spark.yarn.tags=mine,{submitted.handle.name}" in told.read_text()
    assert json.loads(json.dumps(submitted.handle.to_dict()))["cluster"] == "yarn"


def test_a_pod_has_no_other_name(
    spec: dict[str, Any], told: Path, connection: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from airflow.providers.apache.spark.hooks import spark_submit as theirs

    monkeypatch.setattr(theirs, "kube_client", SimpleNamespace(), raising=False)
    connection("spark_default", "spark", host="k8s://https://a", extra={"deploy-mode": "cluster"})
    hook = ContinuousQueryHook(
        spark_submit={"conf": {"spark.kubernetes.driver.pod.name": "the-driver"}}
    )

    with pytest.raises(ConfigError, match=r"driver\.pod\.name is 'the-driver'"):
        hook.submit(hook.specification(spec))

    assert hook.on_its_way(spec["checkpoint_location"]) is None


@pytest.mark.parametrize("connected", [{}, {"namespace": "streams"}])
def test_a_pod_is_in_no_other_namespace(
    spec: dict[str, Any],
    told: Path,
    connection: Connect,
    monkeypatch: pytest.MonkeyPatch,
    connected: dict[str, str],
) -> None:
    """Where the Spark connection leads it would not be found: it would count as ended."""
    from types import SimpleNamespace

    from airflow.providers.apache.spark.hooks import spark_submit as theirs

    monkeypatch.setattr(theirs, "kube_client", SimpleNamespace(), raising=False)
    extra = {"deploy-mode": "cluster", **connected}
    connection("spark_default", "spark", host="k8s://https://a", extra=extra)
    own = "spark.kubernetes.namespace"

    elsewhere = ContinuousQueryHook(spark_submit={"conf": {own: "others"}})
    with pytest.raises(ConfigError, match=r"kubernetes\.namespace is 'others'"):
        elsewhere.submit(elsewhere.specification(spec))

    namespace = connected.get("namespace", "default")
    hook = ContinuousQueryHook(spark_submit={"conf": {own: namespace}})
    submitted = hook.submit(hook.specification(spec))
    assert submitted.process.wait(120) == 1
    assert f"--conf {own}={namespace}" in told.read_text()


def test_options_of_a_local_query_are_checked_all_the_same(
    spec: dict[str, Any], stand_in: None
) -> None:
    hook = ContinuousQueryHook(spark_submit={"executor_memroy": "1g"})

    with pytest.raises(ConfigError, match="no option 'executor_memroy'"):
        hook.submit(hook.specification(spec))


def test_a_submission_to_another_cluster_is_not_asked_for(
    spec: dict[str, Any], told: Path, connection: Connect
) -> None:
    """The connection leads elsewhere by now: nothing can be told, and nothing is doubled."""
    connection("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    hook = ContinuousQueryHook()
    first = hook.submit(hook.specification(spec))
    connection("spark_default", "spark", host="spark://b:7077", extra={"deploy-mode": "cluster"})
    there = ContinuousQueryHook()

    found = there.on_its_way(spec["checkpoint_location"])

    assert found is not None
    assert found.look().detail == "submitted to yarn, where the connection does not lead"
    assert not found.kill()
    first.process.wait(120)


def test_another_namespace_is_another_cluster(
    spec: dict[str, Any], told: Path, connection: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is not found there has not ended."""
    from types import SimpleNamespace

    from airflow.providers.apache.spark.hooks import spark_submit as theirs

    monkeypatch.setattr(theirs, "kube_client", SimpleNamespace(), raising=False)
    extra = {"deploy-mode": "cluster", "namespace": "streams"}
    connection("spark_default", "spark", host="k8s://https://a", extra=extra)
    hook = ContinuousQueryHook()
    first = hook.submit(hook.specification(spec))
    location = spec["checkpoint_location"]
    noted = Notes(open_storage(location)).last()
    assert noted is not None
    assert noted.cluster == "k8s://https://a, namespace streams"

    extra["namespace"] = "others"
    connection("spark_default", "spark", host="k8s://https://a", extra=extra)
    elsewhere = ContinuousQueryHook().submission(location, first.handle.number)

    assert elsewhere is not None
    assert elsewhere.look().detail.startswith("submitted to k8s://https://a, namespace streams")
    first.process.wait(120)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"executor_memroy": "1g"}, "(?s)no option 'executor_memroy'.*executor_memory"),
        ({"deploy_mode": "moon"}, "deploy_mode is 'moon'"),
        ({"conf": "a=b"}, "no mapping"),
        ({"ship_engine": "false"}, "ship_engine is 'false'"),
        ({"yarn_queue": 7}, "(?s)yarn_queue is 7.*text"),
        (
            {"executor_cores": 2, "conf": {"spark.executor.cores": 4}},
            "spark_submit has executor_cores, and spark.executor.cores in its conf",
        ),
        ({"driver_memory": True}, "(?s)driver_memory is True.*text"),
    ],
)
def test_options_that_cannot_be_used(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        SubmitOptions.read(given)


@pytest.mark.parametrize(
    ("given", "more", "both"),
    [
        ({"num_executors": 2}, {"executor_cores": 1}, {"num_executors": 2, "executor_cores": 1}),
        (
            {"conf": {"spark.executor.memory": "2g", "spark.a": 1}},
            {"executor_memory": "8g"},
            {"conf": {"spark.a": 1}, "executor_memory": "8g"},
        ),
        (
            {"executor_memory": "2g", "conf": {"spark.a": 1}},
            {"conf": {"spark.executor.memory": "8g"}},
            {"conf": {"spark.a": 1, "spark.executor.memory": "8g"}},
        ),
        (
            {"total_executor_cores": 2},
            {"total_executor_cores": None, "conf": {"spark.cores.max": 4}},
            {"total_executor_cores": None, "conf": {"spark.cores.max": 4}},
        ),
    ],
)
def test_a_task_s_size_goes_over_the_connection_s(
    given: dict[str, Any], more: dict[str, Any], both: dict[str, Any]
) -> None:
    assert options_over(given, more) == both
    SubmitOptions.read(both)


def test_a_local_query_has_the_settings_and_says_what_it_has_not(
    spec: dict[str, Any],
    stand_in: None,
    connection: Connect,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[Any] = []
    really_write = Submission.write_specification

    def write(submission: Submission, document: Any = None) -> Path:
        path = really_write(submission, document)
        written.append(json.loads(path.read_text())["conf"])
        return path

    monkeypatch.setattr(Submission, "write_specification", write)
    connection("continuous_default", "continuous", extra={"conf": {"spark.a": "1", "spark.b": "1"}})
    for number, (options, level) in enumerate(
        [({"executor_memory": "1g"}, "info"), ({"packages": ["a:b:1"]}, "warning")]
    ):
        hook = ContinuousQueryHook(spark_submit={**options, "conf": {"spark.b": "2"}})
        location = f"{spec['checkpoint_location']}{number}"
        submitted = hook.submit(hook.specification({**spec, "checkpoint_location": location}))
        submitted.process.terminate()
        submitted.process.wait(120)
        assert written[number] == {"spark.a": "1", "spark.b": "2"}
        lines = capsys.readouterr().out.splitlines()
        (line,) = [each for each in lines if "not looked at" in each]
        assert level in line
        assert f"of spark_submit {next(iter(options))} is not" in line


def test_a_size_without_a_unit_is_in_mebibytes() -> None:
    """As Spark has it, though it starts a driver of client mode with -Xmx4096: bytes."""
    options = SubmitOptions.read({"driver_memory": 4096, "executor_memory": "2048"})

    assert (options.driver_memory, options.executor_memory) == ("4096m", "2048m")
