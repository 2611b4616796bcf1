"""What the tests' kubelet makes of a pod's description."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.servers import pods

IP = "127.1.0.7"
DRIVER = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///a.py", "x"]


def pod(**container: Any) -> dict[str, Any]:
    """One with a container that is made of these."""
    volumes = container.pop("volumes", [])
    return {
        "metadata": {"name": "a-pod", "namespace": "streams", "uid": "u", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "spark", **container}], "volumes": volumes},
        "status": {"podIP": IP},
    }


def lookup(kind: str, name: str) -> dict[str, str]:
    held = {("configmaps", "conf"): {"a.properties": "x=1"}, ("secrets", "keys"): {"key": "k"}}
    return held[kind, name]


def test_an_environment_of_values_fields_and_other_objects() -> None:
    described = pod(
        envFrom=[{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "conf"}}],
        env=[
            {"name": "PLAIN", "value": "1"},
            {"name": "EMPTY"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
        ],
    )

    assert pods.environment(described, IP, lookup) == {
        "key": "k",
        "a.properties": "x=1",
        "PLAIN": "1",
        "EMPTY": "",
        "IP": IP,
        "NAME": "a-pod",
        "A": "b",
        "KEY": "k",
    }


def test_a_value_refers_to_what_came_before() -> None:
    values = {"A": "1", "B": "$(A), $$(A), $(C), $$$(A), $", "D": "${A} $(B"}
    described = pod(env=[{"name": name, "value": value} for name, value in values.items()])

    assert pods.environment(described, IP, lookup) == {
        "A": "1",
        "B": "1, $(A), $(C), $1, $",
        "D": "${A} $(B",
    }


def test_what_is_not_there_is_waited_for() -> None:
    reference = {"secretKeyRef": {"name": "others", "key": "key"}}
    with pytest.raises(KeyError):
        pods.environment(pod(env=[{"name": "A", "valueFrom": reference}]), IP, lookup)


def test_what_is_mounted() -> None:
    described = pod(
        volumes=[
            {"name": "conf", "configMap": {"name": "conf"}},
            {"name": "one", "secret": {"secretName": "keys", "items": [_item("key", "k.pem")]}},
            {"name": "own", "emptyDir": {}},
        ],
        volumeMounts=[
            {"name": "conf", "mountPath": "/opt/spark/conf"},
            {"name": "one", "mountPath": "/etc/one"},
            {"name": "own", "mountPath": "/var/data"},
        ],
    )

    assert pods.files(described, lookup) == {
        "/opt/spark/conf": {"a.properties": "x=1"},
        "/etc/one": {"k.pem": "k"},
        "/var/data": None,
    }


def test_an_unknown_volume_is_refused() -> None:
    mounts = [{"name": "nfs", "mountPath": "/data"}]
    described = pod(volumes=[{"name": "nfs", "nfs": {}}], volumeMounts=mounts)
    with pytest.raises(LookupError, match="nfs"):
        pods.files(described, lookup)


def test_a_secret_is_base64() -> None:
    data = {"key": base64.b64encode(b"k").decode()}

    assert pods.content("secrets", {"data": data}) == {"key": "k"}
    assert pods.content("configmaps", {"data": data}) == data
    assert pods.content("configmaps", {}) == {}


def test_a_drivers_command() -> None:
    command = pods.command(DRIVER, {"SPARK_DRIVER_BIND_ADDRESS": IP}, "java")

    assert command[0] == "/opt/spark/bin/spark-submit"
    assert command[1:3] == ["--conf", f"spark.driver.bindAddress={IP}"]
    assert command[-len(DRIVER) - 1 :] == ["--deploy-mode", "client", *DRIVER[1:]]


def test_an_executors_command() -> None:
    told = {
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@a.b.svc:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": IP,
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "an-executor",
        "SPARK_JAVA_OPT_10": "-Dten=10",
        "SPARK_JAVA_OPT_9": "-Dnine=9",
    }

    command = pods.command(["executor"], told, "java")

    assert command[:6] == ["java", "-Dnine=9", "-Dten=10", "-Xms512m", "-Xmx512m", "-cp"]
    assert command[-2:] == ["--podName", "an-executor"]
    assert command[command.index("--hostname") + 1] == IP


def test_any_other_command_is_executed_as_it_is() -> None:
    assert pods.command(["echo", "a b"], {}, "java") == ["echo", "a b"]


def test_names_of_pods_and_services() -> None:
    of_it = {"metadata": {"name": "svc", "namespace": "streams"}, "spec": {"selector": {"a": "b"}}}
    of_none = {"metadata": {"name": "no", "namespace": "streams"}, "spec": {"selector": {"a": "c"}}}
    without = {"metadata": {"name": "all", "namespace": "streams"}, "spec": {}}
    waiting = {**pod(), "status": {"phase": "Pending"}}

    assert pods.hosts([of_it, of_none, without], [pod(), waiting]).splitlines() == [
        "127.0.0.1 localhost",
        f"{IP} a-pod",
        f"{IP} svc.streams.svc.cluster.local svc.streams.svc",
    ]


def _item(key: str, path: str) -> dict[str, str]:
    return {"key": key, "path": path}
