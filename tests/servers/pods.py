"""What a pod's description says about its container: environment, files, command. Pure.

In place of the image of Spark there is the Spark of this machine at :data:`SPARK_HOME`, and what
that image's ``entrypoint.sh`` makes of a container's arguments is :func:`command`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SPARK_HOME = "/opt/spark"
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")
Lookup = Callable[[str, str], Mapping[str, str]]
"""The content of ``configmaps`` or ``secrets`` by name; raises what the kubelet waits for."""


def environment(pod: Mapping[str, Any], ip: str, lookup: Lookup) -> dict[str, str]:
    """The container's environment: own values, the downward API's, those of other objects.

    :param ip: of the pod.
    """
    (container,) = pod["spec"]["containers"]
    told: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        kind = "secrets" if "secretRef" in source else "configmaps"
        reference = source.get("secretRef") or source["configMapRef"]
        told |= lookup(kind, reference["name"])
    for variable in container.get("env", ()):
        place = variable.get("valueFrom")
        if place is None:
            told[variable["name"]] = _expanded(variable.get("value", ""), told)
        elif "fieldRef" in place:
            told[variable["name"]] = field(pod, ip, place["fieldRef"]["fieldPath"])
        else:
            kind = "secrets" if "secretKeyRef" in place else "configmaps"
            reference = place.get("secretKeyRef") or place["configMapKeyRef"]
            told[variable["name"]] = lookup(kind, reference["name"])[reference["key"]]
    return told


def _expanded(value: str, told: Mapping[str, str]) -> str:
    """``$(NAME)`` is what came before under that name, if it did, and ``$$`` is ``$``.

    Source: ``third_party/forked/golang/expansion`` of Kubernetes.
    """

    def replaced(found: re.Match[str]) -> str:
        return "$" if found[1] is None else told.get(found[1], found[0])

    return _REFERENCE.sub(replaced, value)


def field(pod: Mapping[str, Any], ip: str, path: str) -> str:
    """What the downward API says.

    :raises LookupError: it is not told here.
    """
    metadata = pod["metadata"]
    if label := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(metadata[label[1]][label[2]])
    told = {
        "status.podIP": ip,
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
    }
    return str(told[path])


def files(pod: Mapping[str, Any], lookup: Lookup) -> dict[str, dict[str, str] | None]:
    """What is mounted: folders with their files; None: an empty one, to write to.

    :raises LookupError: a kind of volume that is not known here.
    """
    (container,) = pod["spec"]["containers"]
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    found: dict[str, dict[str, str] | None] = {}
    for mount in container.get("volumeMounts", ()):
        volume = volumes[mount["name"]]
        if "emptyDir" in volume:
            found[mount["mountPath"]] = None
        elif "configMap" in volume:
            given = volume["configMap"]
            found[mount["mountPath"]] = _chosen(lookup("configmaps", given["name"]), given)
        elif "secret" in volume:
            given = volume["secret"]
            found[mount["mountPath"]] = _chosen(lookup("secrets", given["secretName"]), given)
        else:
            raise LookupError(f"a volume of {sorted(volume)}")
    return found


def content(kind: str, body: Mapping[str, Any]) -> dict[str, str]:
    """What a ConfigMap or a Secret holds."""
    data = dict(body.get("data") or {})
    if kind == "secrets":
        return {key: base64.b64decode(value).decode() for key, value in data.items()}
    return data


def command(arguments: Sequence[str], told: Mapping[str, str], java: str) -> list[str]:
    """What the entrypoint of Spark's image executes for these arguments.

    :param told: the container's environment.
    """
    what, *rest = arguments
    if what == "driver":
        address = told["SPARK_DRIVER_BIND_ADDRESS"]
        return [
            f"{SPARK_HOME}/bin/spark-submit",
            "--conf", f"spark.driver.bindAddress={address}",
            "--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}",
            "--deploy-mode", "client",
            *rest,
        ]  # fmt: skip
    if what != "executor":
        return list(arguments)
    options = sorted(
        (int(found[1]), value) for name, value in told.items()
        if (found := _JAVA_OPTION.fullmatch(name))
    )  # fmt: skip
    return [
        java,
        *(value for _, value in options),
        f"-Xms{told['SPARK_EXECUTOR_MEMORY']}",
        f"-Xmx{told['SPARK_EXECUTOR_MEMORY']}",
        "-cp", f"{told.get('SPARK_CLASSPATH', '')}:{SPARK_HOME}/jars/*",
        _BACKEND,
        "--driver-url", told["SPARK_DRIVER_URL"],
        "--executor-id", told["SPARK_EXECUTOR_ID"],
        "--cores", told["SPARK_EXECUTOR_CORES"],
        "--app-id", told["SPARK_APPLICATION_ID"],
        "--hostname", told["SPARK_EXECUTOR_POD_IP"],
        "--resourceProfileId", told["SPARK_RESOURCE_PROFILE_ID"],
        "--podName", told["SPARK_EXECUTOR_POD_NAME"],
    ]  # fmt: skip


def hosts(services: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> str:
    """Lines of ``/etc/hosts``: each pod's own name, and those of headless services in the
    cluster."""
    lines = ["127.0.0.1 localhost"]
    for pod in pods:
        if ip := (pod.get("status") or {}).get("podIP"):
            lines.append(f"{ip} {pod['metadata']['name']}")
    for service in services:
        selector = (service["spec"].get("selector") or {}).items()
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        for pod in pods:
            labels = (pod["metadata"].get("labels") or {}).items()
            ip = (pod.get("status") or {}).get("podIP")
            if ip and selector and selector <= labels:
                lines.append(f"{ip} {name}.{namespace}.svc.cluster.local {name}.{namespace}.svc")
    return "\n".join([*lines, ""])


def _chosen(held: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    items = given.get("items")
    if not items:
        return dict(held)
    return {item["path"]: held[item["key"]] for item in items}
