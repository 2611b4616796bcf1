"""Queries as ``SparkApplication``s: what the API server's answers mean; with Kubernetes' own
client, and a stand-in of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.backends import backend_that_knows, spark_operator
from airflow_provider_continuous.deploy.contract import (
    UNSEEN_MAX_S,
    DriverState,
    DriverStatus,
)
from airflow_provider_continuous.deploy.settings import ConnectionSettings, settings_of
from airflow_provider_continuous.deploy.spark_operator.backend import SparkOperator
from airflow_provider_continuous.deploy.submitted import QueryStartError
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ConfigError
from tests.airflow.kubernetes_stand_in import HANGS_UP, ApiServer, api_server
from tests.airflow.spark_applications import DOCUMENT, HANDLE, KUBEFLOW, NAME, submission

PODS = "/api/v1/namespaces/streams/pods"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with api_server() as server:
        yield server


@pytest.fixture
def settings(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConnectionSettings:
    kubernetes = {"kube_config_path": str(server.kubeconfig(tmp_path)), "namespace": "streams"}
    connections = {
        "kubernetes_default": {"conn_type": "kubernetes", "extra": kubernetes},
        "continuous_default": {
            "conn_type": "continuous",
            "extra": {"deploy-mode": "spark-operator", "spark-application": KUBEFLOW},
        },
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    return settings_of("continuous_default")


@pytest.fixture
def backend(settings: ConnectionSettings) -> SparkOperator:
    return spark_operator(settings)


# -- what is asked --------------------------------------------------------------------------------


def test_a_submission_is_found_asked_and_ended(
    server: ApiServer, backend: SparkOperator, tmp_path: Path
) -> None:
    server.add(
        "/api/v1/namespaces/streams/secrets",
        {"metadata": {"name": "left", "labels": {"continuous-checkpoint": "continuous-abc"}}},
    )
    assert backend.find(HANDLE) == HANDLE

    handle = backend.submit(submission(tmp_path), HANDLE)
    assert handle.driver_id == backend.find(HANDLE).driver_id == NAME
    (secret,) = server.of_kind("secrets").values()
    application = server.of_kind("sparkapplications")[NAME]
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("SparkApplication", application["metadata"]["uid"])
    assert backend.status(handle).state is DriverState.STARTING

    labels = {**application["metadata"]["labels"], "spark-role": "driver"}
    driver = {"metadata": {"name": "d", "labels": labels}, "status": {"phase": "Running"}}
    server.add(PODS, driver)
    assert backend.kill(handle)
    assert not server.objects
    assert backend.status(handle).state is DriverState.ENDED
    assert not backend.kill(handle)

    server.add(PODS, driver)
    assert backend.status(handle).state is DriverState.RUNNING
    driver["status"] = {"phase": "Failed"}
    assert backend.status(handle).state is DriverState.ENDED


def test_an_application_that_is_given_up_has_not_ended_while_its_driver_is_there(
    server: ApiServer, backend: SparkOperator, tmp_path: Path
) -> None:
    handle = backend.submit(submission(tmp_path), HANDLE)
    application = server.of_kind("sparkapplications")[NAME]
    application["status"] = {"applicationState": {"state": "FAILED"}}
    labels = {**application["metadata"]["labels"], "spark-role": "driver"}
    server.add(PODS, {"metadata": {"name": "d", "labels": labels}, "status": {"phase": "Pending"}})

    told = backend.status(handle)
    assert told.state is DriverState.RUNNING
    assert "is FAILED, and pod d is there" in told.detail
    assert backend.kill(handle)
    assert backend.status(handle).state is DriverState.ENDED


def test_the_last_words_are_those_of_the_drivers_pod(
    server: ApiServer, backend: SparkOperator, tmp_path: Path
) -> None:
    handle = backend.submit(submission(tmp_path), HANDLE)
    assert backend.last_words(handle) == ""
    labels = server.of_kind("sparkapplications")[NAME]["metadata"]["labels"]
    driver = {
        "metadata": {"name": "d", "labels": {**labels, "spark-role": "driver"}},
        "spec": {"containers": [{"name": "spark-kubernetes-driver"}]},
        "status": {"phase": "Failed"},
    }
    server.add(PODS, driver)
    server.logs["d"] = "26/11/26 20:58:14 INFO Spark: it begins\nno such tópic\npassword=s3cret\n"

    words = backend.last_words(handle).splitlines()
    assert words[0] == "no such tópic"
    assert "s3cret" not in str(words)


def test_a_start_that_hangs_tells_what_its_pod_waits_for(
    server: ApiServer, settings: ConnectionSettings, tmp_path: Path
) -> None:
    hook, location = ContinuousQueryHook(), str(tmp_path / "checkpoint")
    submitted = hook.submit(
        hook.specification({**DOCUMENT, "checkpoint_location": location}), "a task"
    )
    (application,) = server.of_kind("sparkapplications").values()
    no_room = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    image = {"reason": "ImagePullBackOff", "message": "Back-off pulling image, password=s3cret"}
    state = {
        "phase": "Pending",
        "conditions": [no_room, {"type": "Initialized", "status": "True", "message": "no matter"}],
        "containerStatuses": [
            {
                "name": "spark-kubernetes-driver",
                "image": "i",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"waiting": image},
            }
        ],
    }
    driver = {
        "metadata": {
            "name": "d",
            "labels": {**application["metadata"]["labels"], "spark-role": "driver"},
        },
        "spec": {"containers": [{"name": "spark-kubernetes-driver"}]},
        "status": state,
    }
    server.add(PODS, driver)

    with pytest.raises(QueryStartError) as failed:
        hook.wait_until_started(submitted, 0)
    told = str(failed.value)
    assert "0/3 nodes are available\nImagePullBackOff: Back-off pulling image" in told
    assert "s3cret" not in told
    assert "no matter" not in told
    assert not server.objects


def test_another_checkpoints_application_is_left_alone(
    server: ApiServer, backend: SparkOperator, tmp_path: Path
) -> None:
    backend.submit(submission(tmp_path), HANDLE)
    other = server.of_kind("sparkapplications")[NAME]
    other["metadata"]["labels"]["continuous-checkpoint"] = "continuous-other"

    assert backend.find(HANDLE) == HANDLE
    backend.kill(HANDLE)
    assert NAME in server.of_kind("sparkapplications")


@pytest.mark.parametrize("kind", ["secrets", "sparkapplications"])
def test_what_the_server_refuses_leaves_nothing(
    server: ApiServer, backend: SparkOperator, tmp_path: Path, kind: str
) -> None:
    server.fails["POST", kind] = 403

    with pytest.raises(ConfigError, match="Kubernetes answers 403: it was told to fail"):
        backend.submit(submission(tmp_path), HANDLE)
    assert not server.objects


@pytest.mark.parametrize("kind", ["secrets", "sparkapplications"])
@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (401, "Unauthorized"),
        (403, "exceeded quota: objects, requested: pods=1"),
        (403, "admission webhook denied the request: failed to validate resource quota"),
        (429, "too many requests"),
    ],
)
def test_a_refusal_that_may_pass_is_retried_and_leaves_nothing(
    server: ApiServer, backend: SparkOperator, tmp_path: Path, kind: str, failure: int, says: str
) -> None:
    server.fails["POST", kind] = failure
    server.says = says

    with pytest.raises(QueryStartError, match=f"Kubernetes answers {failure}: {says}"):
        backend.submit(submission(tmp_path), HANDLE)
    assert not server.objects


@pytest.mark.parametrize("failure", [HANGS_UP, 500, 429])
def test_without_its_secret_nothing_is_started(
    server: ApiServer, backend: SparkOperator, tmp_path: Path, failure: int
) -> None:
    server.fails["POST", "secrets"] = failure
    server.keeps_all_the_same = True

    with pytest.raises(QueryStartError):
        backend.submit(submission(tmp_path), HANDLE)
    assert not server.objects


@pytest.mark.parametrize("is_created", [True, False])
@pytest.mark.parametrize("failure", [HANGS_UP, 500])
def test_an_answer_that_is_lost_leaves_it_to_the_next_look(
    server: ApiServer, backend: SparkOperator, tmp_path: Path, failure: int, is_created: bool
) -> None:
    server.fails["POST", "sparkapplications"] = failure
    server.keeps_all_the_same = is_created

    handle = backend.submit(submission(tmp_path), HANDLE)
    assert handle.driver_id == NAME
    expected = DriverState.STARTING if is_created else DriverState.ENDED
    assert backend.status(handle).state is expected
    (secret,) = server.of_kind("secrets").values()
    assert ("ownerReferences" in secret["metadata"]) is is_created


def test_a_server_that_takes_its_time_to_create_an_application_is_waited_for(
    server: ApiServer, backend: SparkOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience_s = 0.5
    monkeypatch.setattr(f"{SparkOperator.__module__}.ANSWER_S", patience_s)
    server.thinks["POST", "sparkapplications"] = lambda: Event().wait(4 * patience_s)

    handle = backend.submit(submission(tmp_path), HANDLE)
    assert backend.status(handle).state is DriverState.STARTING


def test_what_is_interrupted_while_it_submits_is_found_by_a_retry(
    server: ApiServer, settings: ConnectionSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, location = ContinuousQueryHook(), str(tmp_path / "checkpoint")
    document = hook.specification({**DOCUMENT, "checkpoint_location": location})

    def times_out(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as interrupted:
        interrupted.setattr(SparkOperator, "_give", times_out)
        with pytest.raises(SystemExit):
            hook.submit(document, "a task")
    again = hook.submit(document, "its retry")
    assert list(server.of_kind("sparkapplications")) == [again.handle.driver_id]


def test_a_field_that_the_kind_does_not_have_is_refused(
    server: ApiServer, backend: SparkOperator, tmp_path: Path
) -> None:
    server.unknown = {"sparkVersion"}
    with pytest.raises(ConfigError, match=r'unknown field "spec\.sparkVersion"'):
        backend.submit(submission(tmp_path), HANDLE)
    assert not server.objects


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"python_path": ["/"]}, "python_path cannot be sent"),
        ({"conf": {"spark.kubernetes.namespace": "other"}}, r"namespace is 'other'"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_ended_for_it(
    server: ApiServer, settings: ConnectionSettings, more: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        ContinuousQueryHook().specification({**DOCUMENT, **more})
    with pytest.raises(ConfigError, match="spark_submit has jars"):
        ContinuousQueryHook(spark_submit={"jars": "a.jar"}).specification(DOCUMENT)


def test_the_worker_needs_no_python_of_the_queries(
    server: ApiServer, settings: ConnectionSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CONTINUOUS__PYTHON", "/no/python")
    hook, location = ContinuousQueryHook(), str(tmp_path / "checkpoint")
    document = hook.specification({**DOCUMENT, "checkpoint_location": location})

    assert hook.submit(document, "a task").look().state is DriverState.STARTING


@pytest.mark.parametrize("failure", [HANGS_UP, 403, 503])
def test_a_server_that_does_not_answer_tells_nothing(
    server: ApiServer, backend: SparkOperator, tmp_path: Path, failure: int
) -> None:
    handle = backend.submit(submission(tmp_path), HANDLE)
    server.fails["GET", "sparkapplications"] = failure

    assert backend.find(HANDLE) == HANDLE
    assert backend.status(handle).state is DriverState.UNKNOWN
    assert not backend.kill(handle)
    assert NAME in server.of_kind("sparkapplications")


@pytest.mark.parametrize(
    ("told", "age_s", "expected"),
    [
        (DriverState.STARTING, 0.0, DriverState.STARTING),
        (DriverState.ENDED, 0.0, DriverState.ENDED),
        (DriverState.UNKNOWN, 0.0, DriverState.UNKNOWN),
        (DriverState.UNKNOWN, UNSEEN_MAX_S + 60, DriverState.ENDED),
    ],
)
def test_before_there_is_an_application_the_submitter_is_looked_at(
    backend: SparkOperator,
    monkeypatch: pytest.MonkeyPatch,
    told: DriverState,
    age_s: float,
    expected: DriverState,
) -> None:
    monkeypatch.setattr(processes, "status", lambda _: DriverStatus(told, "as told"))
    monkeypatch.setattr("time.time", lambda: HANDLE.submitted_at + age_s)

    assert backend.status(HANDLE).state is expected


def test_nobody_stays_for_a_submission_and_a_retry_finds_it(
    server: ApiServer, settings: ConnectionSettings, tmp_path: Path
) -> None:
    hook, location = ContinuousQueryHook(), str(tmp_path / "checkpoint")
    document = hook.specification({**DOCUMENT, "checkpoint_location": location})

    submitted = hook.submit(document, "a task")
    assert submitted.look().state is DriverState.STARTING
    assert submitted.has_read_its_files
    again = hook.submit(document, "its retry")
    assert again.handle.driver_id == submitted.handle.driver_id
    assert list(server.of_kind("sparkapplications")) == [submitted.handle.driver_id]
    with pytest.raises(QueryStartError, match=r"hung for 0 s .*no operator has looked"):
        hook.wait_until_started(submitted, 0)
    assert not server.objects
    assert hook.on_its_way(location) is None


# -- the connection -------------------------------------------------------------------------------


def test_the_button_of_the_connection(
    server: ApiServer, settings: ConnectionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ContinuousQueryHook().test_connection() == (
        True,
        f"Queries are SparkApplications of {server.url}, streams, sparkoperator.k8s.io.",
    )
    server.fails["GET", "sparkapplications"] = 404
    works, told = ContinuousQueryHook().test_connection()
    assert not works
    assert "Kubernetes answers 404" in told
    assert "kubectl get crd sparkapplications.sparkoperator.k8s.io" in told
    server.fails.clear()
    server.fails["GET", "pods"] = 403
    works, told = ContinuousQueryHook().test_connection()
    assert not works
    assert "Kubernetes answers 403" in told
    server.fails.clear()

    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", "kubernetes://?kube_config_path=/none")
    works, told = ContinuousQueryHook().test_connection()
    assert not works
    assert "leads to no Kubernetes" in told


def test_a_handle_of_another_place_tells_nothing(settings: ConnectionSettings) -> None:
    here = backend_that_knows(replace(HANDLE, cluster=spark_operator(settings).place), settings)
    assert isinstance(here, SparkOperator)

    elsewhere = replace(HANDLE, cluster="https://other, streams, sparkoperator.k8s.io")
    other = backend_that_knows(elsewhere, settings)
    assert other.status(elsewhere).state is DriverState.UNKNOWN
    assert not other.kill(elsewhere)


def test_it_has_no_standby(settings: ConnectionSettings) -> None:
    with pytest.raises(ConfigError, match="spark-operator"):
        ContinuousQueryHook().check_standby()
