"""``SparkApplication``s: what is written into them, and what they tell."""

from __future__ import annotations

import base64
import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus
from airflow_provider_continuous.deploy.described import describe_submission
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.settings import ConnectionSettings
from airflow_provider_continuous.deploy.spark_operator.kinds import OPERATORS
from airflow_provider_continuous.deploy.spark_operator.template import Template
from engine.errors import ConfigError
from tests.airflow.spark_applications import (
    APACHE,
    DOCUMENT,
    HANDLE,
    KUBEFLOW,
    NAME,
    submission,
)


def made(
    folder: Path, body: dict[str, Any] = KUBEFLOW, options: Any = None, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    template = Template.read(body, "streams")
    return template.application(
        submission(folder, **more), HANDLE, SubmitOptions.read(options or {})
    )


def known(application: dict[str, Any]) -> DriverStatus:
    body = {**KUBEFLOW, "metadata": {"name": NAME}, **application}
    return Template.read(KUBEFLOW, None).status(body)


# -- what is written ------------------------------------------------------------------------------


def test_a_query_is_the_template_with_its_own(tmp_path: Path) -> None:
    secret, application = made(tmp_path, options={"conf": {"spark.c": True}, "num_executors": 3})

    labels = {"continuous-checkpoint": "continuous-abc", "continuous-submission": NAME}
    assert application["metadata"] == {
        "name": NAME,
        "namespace": "streams",
        "labels": {"team": "orders", **labels},
    }
    assert application["spec"] == {
        **KUBEFLOW["spec"],
        "type": "Python",
        "mode": "cluster",
        "restartPolicy": {"type": "Never"},
        "timeToLiveSeconds": 86_400,
        "arguments": ["env:CONTINUOUS_SPECIFICATION"],
        # Kubeflow's fields hide its settings.
        "driver": {"memory": "1g", "serviceAccount": "spark", "podName": f"{NAME}-driver"},
        "executor": {"memory": "1g", "instances": 3},
        "sparkConf": {
            "spark.a": "template",
            "spark.b": "query",
            "spark.c": "true",
            "spark.kubernetes.namespace": "streams",
            "spark.kubernetes.driver.label.continuous-checkpoint": "continuous-abc",
            "spark.kubernetes.driver.label.continuous-submission": NAME,
            "spark.kubernetes.driver.secretKeyRef.CONTINUOUS_SPECIFICATION": (
                f"{NAME}:CONTINUOUS_SPECIFICATION"
            ),
            "spark.kubernetes.driver.secretKeyRef.TOKEN": f"{NAME}:TOKEN",
        },
    }
    assert secret["metadata"] == {"name": NAME, "namespace": "streams", "labels": labels}
    held = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    specification = {**DOCUMENT, "conf": {"spark.my.password": "s3cret"}}
    assert held.pop("TOKEN") == "t0ken"
    assert json.loads(held.pop("CONTINUOUS_SPECIFICATION")) == specification
    assert not held


def test_of_apaches_operator(tmp_path: Path) -> None:
    _, application = made(tmp_path, APACHE)

    spec = application["spec"]
    assert spec["driverArgs"] == ["env:CONTINUOUS_SPECIFICATION"]
    assert spec["applicationTolerations"] == {
        "restartConfig": {"restartPolicy": "Never"},
        "applicationTimeoutConfig": {  # none: the task's own counts
            "driverStartTimeoutMillis": 0,
            "driverReadyTimeoutMillis": 0,
            "executorStartTimeoutMillis": 0,
        },
        "resourceRetainPolicy": "OnFailure",
        "ttlAfterStopMillis": 86_400_000,
    }
    assert spec["sparkConf"]["spark.kubernetes.driver.pod.name"] == f"{NAME}-driver"
    assert spec["sparkConf"]["spark.b"] == "query"
    assert "applicationTolerations" not in APACHE["spec"]


def test_settings_that_kubeflows_webhook_refuses_are_fields(tmp_path: Path) -> None:
    conf = {
        "spark.kubernetes.container.image": "images.example/streams:2",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "another",
        "spark.kubernetes.executor.limit.cores": "1500m",
        "spark.executor.cores": 2,
        "spark.executor.memory": "2048",
    }
    _, application = made(tmp_path, options={"conf": conf})

    spec = application["spec"]
    assert not conf.keys() & spec["sparkConf"].keys()
    assert spec["image"] == "images.example/streams:2"
    assert spec["driver"]["serviceAccount"] == "another"
    assert spec["executor"] == {"memory": "2048", "instances": 1, "cores": 2, "coreLimit": "1500m"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"jars": "local:///a.jar"}, r"has spec\.jars"),
        ({"deploymentMode": "ClientMode"}, "says deploymentMode: ClientMode"),
        (
            {"applicationTolerations": {"restartConfig": {"restartPolicy": "Always"}}},
            "says restartPolicy: Always",
        ),
    ],
)
def test_a_template_that_apaches_operator_would_run_otherwise(
    spec: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        Template.read({**APACHE, "spec": {**APACHE["spec"], **spec}}, None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"apiVersion": "apps/v1"}, "of kind 'SparkApplication', 'apps/v1'"),
        ({"apiVersion": "sparkoperator.k8s.io"}, "of kind"),
        ({"kind": "ScheduledSparkApplication"}, "of kind 'ScheduledSparkApplication'"),
        ({"spec": None}, r"no spec\.mainApplicationFile"),
        ({"spec": "local:///a.py"}, "spec as str, and it is an object"),
        ({"spec": {**KUBEFLOW["spec"], "driver": ["a"]}}, "driver as list"),
        ({"spec": {**KUBEFLOW["spec"], "restartPolicy": "Never"}}, "restartPolicy as str"),
        ({"spec": {**KUBEFLOW["spec"], "sparkConf": "a=b"}}, "sparkConf as str"),
        ({"metadata": {"labels": ["a"]}}, "labels as list"),
        ({"spec": {"type": "Python"}}, r"no spec\.mainApplicationFile"),
        ({"metadata": {"name": "mine"}}, r"has metadata\.name"),
        ({"spec": {**KUBEFLOW["spec"], "arguments": ["a"]}}, r"has spec\.arguments"),
        ({"spec": {**KUBEFLOW["spec"], "mode": "client"}}, "says mode: client"),
        ({"spec": {**KUBEFLOW["spec"], "type": "Java"}}, "says type: Java"),
        ({"spec": {**KUBEFLOW["spec"], "restartPolicy": {"type": "Always"}}}, "type: Always"),
    ],
)
def test_a_template_that_cannot_be(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Template.read({**KUBEFLOW, **change}, None)


@pytest.mark.parametrize("body", [KUBEFLOW, APACHE])
@pytest.mark.parametrize("odd", [None, 1, True, "x", ["a"], [{"a": 1}], {"a": 1}])
@pytest.mark.parametrize(
    "place",
    [
        "metadata",
        "metadata.labels",
        "spec",
        "spec.sparkConf",
        "spec.driver",
        "spec.driver.env",
        "spec.driver.envSecretKeyRefs",
        "spec.executor",
        "spec.restartPolicy",
        "spec.applicationTolerations",
        "spec.applicationTolerations.restartConfig",
        "spec.applicationTolerations.applicationTimeoutConfig",
    ],
)
def test_a_template_of_any_shape_is_used_refused_or_left_to_the_server(
    body: dict[str, Any], place: str, odd: Any, tmp_path: Path
) -> None:
    given = copy.deepcopy(body)
    *holders, last = place.split(".")
    holder = given
    for name in holders:
        holder = holder.setdefault(name, {})
    holder[last] = odd

    with suppress(ConfigError):
        _, application = made(tmp_path, given)
        assert application["metadata"]["name"] == NAME


@pytest.mark.parametrize(
    ("options", "document", "expected"),
    [
        ({"jars": "a.jar", "yarn_queue": "q"}, {}, "spark_submit has jars, yarn_queue"),
        ({}, {"python_path": ["/dags"]}, "python_path cannot be sent"),
        (
            {"conf": {"spark.kubernetes.driverEnv.DB_PASSWORD": "s3cret"}},
            {},
            "DB_PASSWORD would show a secret",
        ),
        (
            {"conf": {"spark.kubernetes.authenticate.driver.oauthToken": "s3cret"}},
            {},
            "oauthToken would show a secret",
        ),
        (
            {"conf": {"spark.kubernetes.file.upload.path": "ftp://me:s3cret@files.example/"}},
            {},
            r"upload\.path would show a secret",
        ),
        ({"conf": {"spark.kubernetes.driver.pod.name": "mine"}}, {}, r"pod\.name is 'mine'"),
        (
            {"conf": {"spark.kubernetes.driver.label.continuous-checkpoint": "x"}},
            {},
            "continuous-checkpoint is 'x'",
        ),
    ],
)
def test_what_such_a_driver_cannot_be_sent(
    options: dict[str, Any], document: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=expected):
        made(tmp_path, options=options, **document)


def test_the_querys_variables_go_before_those_of_a_template(tmp_path: Path) -> None:
    driver: dict[str, Any] = {
        "env": [{"name": "TOKEN", "value": "another"}, {"name": "ZONE", "value": "a"}],
        "envSecretKeyRefs": {
            "TOKEN": {"name": "another", "key": "token"},
            "OTHER": {"name": "another", "key": "token"},
        },
    }
    _, application = made(tmp_path, {**KUBEFLOW, "spec": {**KUBEFLOW["spec"], "driver": driver}})

    held = application["spec"]["driver"]
    assert held["env"] == [{"name": "ZONE", "value": "a"}]
    assert held["envSecretKeyRefs"].keys() == {"OTHER"}
    assert driver["env"][0] == {"name": "TOKEN", "value": "another"}


def test_a_variable_that_no_process_can_have_is_refused(tmp_path: Path) -> None:
    length = 128 * 1024 - len("CONTINUOUS_SPECIFICATION=") - len(json.dumps(DOCUMENT))
    made(tmp_path, name="n" * (length - 1000))
    with pytest.raises(ConfigError, match=r"CONTINUOUS_SPECIFICATION has 13\d{4} bytes"):
        made(tmp_path, name="n" * (length + 1000))


def test_what_changes_is_told_part_by_part() -> None:
    settings = ConnectionSettings("spark-operator", spark_application=KUBEFLOW)

    told = describe_submission(DOCUMENT, settings)
    assert told["deploy"] == "spark-operator by kubernetes_default"
    assert told["spark_application.spec.executor.memory"] == "1g"
    assert told["spark_application.spec.executor.instances"] == "1"


# -- what is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "state", "expected"),
    [
        ("sparkoperator.k8s.io", "SUBMITTED", DriverState.STARTING),
        ("sparkoperator.k8s.io", "SUSPENDED", DriverState.STARTING),
        ("sparkoperator.k8s.io", "SUBMISSION_FAILED", DriverState.STARTING),
        ("sparkoperator.k8s.io", "RUNNING", DriverState.RUNNING),
        ("sparkoperator.k8s.io", "SUCCEEDING", DriverState.RUNNING),
        ("sparkoperator.k8s.io", "COMPLETED", DriverState.ENDED),
        ("sparkoperator.k8s.io", "FAILED", DriverState.ENDED),
        ("sparkoperator.k8s.io", "UNKNOWN", DriverState.UNKNOWN),
        ("spark.apache.org", "DriverRequested", DriverState.STARTING),
        ("spark.apache.org", "RunningHealthy", DriverState.RUNNING),
        ("spark.apache.org", "Failed", DriverState.RUNNING),
        ("spark.apache.org", "ResourceReleased", DriverState.ENDED),
    ],
)
def test_states(group: str, state: str, expected: DriverState) -> None:
    assert OPERATORS[group].states.get(state, DriverState.STARTING) is expected


def test_why_it_has_failed_is_told_without_secrets() -> None:
    state = {"state": "FAILED", "errorMessage": "no image; password=s3cret"}
    told = known({"status": {"applicationState": state}})

    assert told.state is DriverState.ENDED
    assert "is FAILED: no image" in told.detail
    assert "s3cret" not in told.detail
    assert known({}) == DriverStatus(
        DriverState.STARTING, f"SparkApplication {NAME}: no operator has looked at it yet"
    )


def test_of_apaches_the_state_before_the_last_says_why() -> None:
    last = {
        "currentStateSummary": "TerminatedWithoutReleaseResources",
        "message": "Application is terminated without releasing resources as configured.",
    }
    history = {
        "9": {"currentStateSummary": "DriverRequested", "message": "Requested driver."},
        "10": {"currentStateSummary": "SchedulingFailure", "message": "exceeded quota: streams"},
        "11": last,
    }
    body = {**APACHE, "metadata": {"name": NAME}}
    body["status"] = {"currentState": last, "stateTransitionHistory": history}

    told = Template.read(APACHE, None).status(body)
    assert told.state is DriverState.ENDED
    assert "SchedulingFailure: exceeded quota: streams; Application is" in told.detail
