"""Where and how large a query runs, as it is noted and compared."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deploy.described import describe_submission
from airflow_provider_continuous.deploy.settings import ConnectionSettings
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from airflow_provider_continuous.reconcile import Decision, OnChanged, reconcile
from engine.query.spec import describe

DOCUMENT: dict[str, Any] = {
    "source": {"format": "tail", "options": {"path": "/data/${REGION}"}},
    "sink": {"format": "noop"},
    "conf": {"spark.a": "1", "spark.b": "1"},
}
ON_CLUSTER: dict[str, Any] = {"deploy_mode": "spark-submit", "spark_submit": {"num_executors": 2}}


def described(**settings: Any) -> dict[str, str]:
    return describe_submission(DOCUMENT, ConnectionSettings(**settings))


def decided(before: dict[str, Any], after: dict[str, Any], on_changed: OnChanged) -> Decision:
    return reconcile(described(**after), described(**before), None, on_changed).decision


def test_what_is_told_and_what_is_not() -> None:
    told = described(
        deploy_mode="spark-submit",
        environment={"REGION": "eu", "LEVEL": "info", "API_TOKEN": "s3cret"},
        spark_submit={
            "executor_memory": "4g",
            "jars": ["a.jar", "b.jar"],
            "conf": {"spark.b": 2, "spark.hadoop.fs.s3a.secret.key": "s3cret"},
        },
    )

    assert told == {
        **describe(DOCUMENT),
        "conf.spark.b": "2",
        "deploy": "spark-submit by spark_default",
        "spark_submit.executor_memory": "4g",
        "spark_submit.jars": "a.jar,b.jar",
        "variables.region": hashlib.sha256(b"eu").hexdigest()[:8],
        "environment.level": hashlib.sha256(b"info").hexdigest()[:8],
    }


@pytest.mark.parametrize(
    ("before", "after", "refuse", "upgrade"),
    [
        (ON_CLUSTER, ON_CLUSTER, "keep", "keep"),
        (ON_CLUSTER, {**ON_CLUSTER, "spark_submit": {"num_executors": 3}}, "warn", "upgrade"),
        ({}, {"spark_submit": {"num_executors": 3}}, "keep", "keep"),  # a local process has none
        ({}, ON_CLUSTER, "warn", "upgrade"),
        ({"environment": {"LEVEL": "a"}}, {"environment": {"LEVEL": "b"}}, "warn", "upgrade"),
        ({"environment": {"REGION": "a"}}, {"environment": {"REGION": "b"}}, "refuse", "upgrade"),
        ({"secrets": {"WORD": "a.password"}}, {"secrets": {"WORD": "b.password"}}, "keep", "keep"),
    ],
)
def test_what_a_change_means(
    before: dict[str, Any], after: dict[str, Any], refuse: str, upgrade: str
) -> None:
    assert decided(before, after, "refuse").value == refuse
    assert decided(before, after, "upgrade").value == upgrade


def test_an_earlier_release_has_noted_nothing_of_it() -> None:
    verdict = reconcile(described(**ON_CLUSTER), describe(DOCUMENT), None, "upgrade")

    assert (verdict.decision, verdict.changes) == (Decision.KEEP, ())


def test_another_environment_takes_over(
    submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    def start(**arguments: Any) -> Any:
        given = {"task_id": "t", "spec": spec, "deferrable": False, "poll_interval": 0.05}
        return StartContinuousQueryOperator(**{**given, "timeout": 120, **arguments})

    first = start(environment={"LEVEL": "info"}).execute(context)
    again = start(environment={"LEVEL": "debug"}, on_changed="upgrade").execute(context)

    assert len(submitted) == 2
    assert first["run_id"] != again["run_id"]


def test_what_the_specification_names_is_no_setting(
    submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    spec = {**spec, "sql": "SELECT '${REGION}' AS region FROM source"}

    def start(region: str) -> Any:
        return StartContinuousQueryOperator(
            task_id="t", spec=spec, deferrable=False, environment={"REGION": region}
        )

    start("eu").execute(context)
    with pytest.raises(AirflowFailException, match=r"variables\.region: \w{8} → \w{8}"):
        start("us").execute(context)
