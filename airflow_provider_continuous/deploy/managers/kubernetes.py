"""Kubernetes: the driver's pod has its submission's name, so there cannot be two, and the
checkpoint's label.

Asked by the client that the Spark provider uses, with its configuration (the provider
``cncf.kubernetes``, section ``[kubernetes_executor]``).
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.managers.contract import (
    ANSWER_S,
    REFUSES,
    WORDS_BYTES_MAX,
    Manager,
)

logger = logging.getLogger(__name__)

LABEL = "continuous-checkpoint"
POD_NAME = "spark.kubernetes.driver.pod.name"
NAMESPACE = "spark.kubernetes.namespace"
_CONTAINER = "spark-kubernetes-driver"
"""As Spark calls it, unless a template of the pod does."""
_LINES = 200
_PHASES = {
    "Pending": DriverState.STARTING,
    "Running": DriverState.RUNNING,
    "Succeeded": DriverState.ENDED,
    "Failed": DriverState.ENDED,
}


class Kubernetes(Manager):
    """One namespace of a cluster.

    :param client: Kubernetes' client, ``CoreV1Api``; None: nothing can be asked.
    :param master: the cluster that spark-submit is told, ``k8s://...``; empty: the client's own.
    """

    id_is_proof = False

    def __init__(self, namespace: str, client: Any, master: str = "") -> None:
        self._namespace, self._client, self._master = namespace, client, master

    def check(self) -> None:
        """Warn if Airflow's client leads elsewhere than spark-submit is told."""
        elsewhere = self._elsewhere()
        if elsewhere:
            logger.warning("Pods are looked for %s", elsewhere)

    def marks(self, handle: Handle) -> Mapping[str, str]:
        """The pod's namespace, its name and its label."""
        return {
            NAMESPACE: self._namespace,
            POD_NAME: f"{handle.name}-driver",
            f"spark.kubernetes.driver.label.{LABEL}": handle.label,
        }

    def find(self, handle: Handle) -> str | None:
        """Its name is known before there is a pod."""
        return f"{handle.name}-driver"

    def status(self, driver_id: str) -> DriverStatus:
        """Ask for the pod."""
        if self._client is None:
            why = f"pod {driver_id}: no Kubernetes client"
            return DriverStatus(DriverState.UNKNOWN, why, seen=False)
        try:
            pod = self._client.read_namespaced_pod(
                driver_id, self._namespace, _request_timeout=ANSWER_S
            )
        except Exception as error:  # of a package that need not be installed
            answer = getattr(error, "status", None)
            if answer == 404:
                why = _joined(f"there is no pod {driver_id}", self._elsewhere())
                return DriverStatus(DriverState.ENDED, why, seen=False)
            why = f"pod {driver_id}: {type(error).__name__} {answer or ''}".rstrip()
            return DriverStatus(DriverState.UNKNOWN, why, seen=answer not in REFUSES)
        # Kubernetes' interface has both as optional: nobody has looked at the pod yet.
        phase = str(getattr(pod.status, "phase", None) or "Pending")
        why = _joined(getattr(pod.status, "reason", None), getattr(pod.status, "message", None))
        detail = _joined(f"pod {driver_id} is {phase}", why)
        end = _end_of_driver(pod)
        if end is not None:  # nothing starts it again, and a sidecar may keep the pod running
            ended = f"its driver has ended, {end.reason}, exit code {end.exit_code}"
            return DriverStatus(DriverState.ENDED, _joined(detail, ended))
        return DriverStatus(_PHASES.get(phase, DriverState.UNKNOWN), detail)

    def kill(self, driver_id: str, handle: Handle) -> bool:
        """Delete the pod, if it has this checkpoint's label."""
        try:
            if self._own_pod(driver_id, handle) is None:
                return False
            self._client.delete_namespaced_pod(
                driver_id, self._namespace, _request_timeout=ANSWER_S
            )
        except Exception:  # of a package that need not be installed: it could not be asked
            return False
        return True

    def last_words(self, driver_id: str, handle: Handle) -> str:
        """Read the log of the pod's container, of several that of Spark's driver, if the pod has
        this checkpoint's label; before there is one, what the pod waits for."""
        pod = None
        try:
            pod = self._own_pod(driver_id, handle)
            if pod is None:
                return ""
            names = [container.name for container in pod.spec.containers]
            # As bytes: read as text, newer clients give the notation of a bytes object.
            answer = self._client.read_namespaced_pod_log(
                driver_id,
                self._namespace,
                container=_CONTAINER if _CONTAINER in names else names[0],
                tail_lines=_LINES,
                _preload_content=False,
                _request_timeout=ANSWER_S,
            )
            text = answer.data.decode(errors="replace")
        except Exception:  # as above; or nothing of it has started
            return "" if pod is None else _waits_for(pod)
        return str(text)[-WORDS_BYTES_MAX:]

    def _elsewhere(self) -> str | None:
        """What tells that another cluster may be asked than has the pods. One cluster may have
        several names, and addresses that no name tells."""
        if self._client is None or not self._master:
            return None
        host, master = str(self._client.api_client.configuration.host), self._master
        if not _addresses(host).isdisjoint(_addresses(master)):
            return None
        return (
            f"at {host}, and spark-submit is told {master}. If that is another cluster, no driver "
            "is found: see [kubernetes_executor] config_file, cluster_context and in_cluster"
        )

    def _own_pod(self, driver_id: str, handle: Handle) -> Any:
        if self._client is None:
            return None
        pod = self._client.read_namespaced_pod(
            driver_id, self._namespace, _request_timeout=ANSWER_S
        )
        return pod if (pod.metadata.labels or {}).get(LABEL) == handle.label else None


def _addresses(url: str) -> set[tuple[str, int]]:
    """The name of an API server and what it stands for, with its port. Spark takes HTTPS for one
    that says nothing."""
    url = url.removeprefix("k8s://")
    parts = urlsplit(url if "://" in url else f"https://{url}")
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, port)}
    except OSError:
        found = set()
    return {(each, port) for each in (host, *found)}


def _end_of_driver(pod: Any) -> Any:
    for container in getattr(pod.status, "container_statuses", None) or ():
        if container.name == _CONTAINER and container.state:
            return getattr(container.state, "terminated", None)
    return None


def _joined(*parts: str | None) -> str:
    return ": ".join(part for part in parts if part)


def _waits_for(pod: Any) -> str:
    """Why nothing of a pod runs: no node has room, or its image is not to be had."""
    conditions = getattr(pod.status, "conditions", None) or ()
    told = [each.message for each in conditions if each.status == "False" and each.message]
    for container in getattr(pod.status, "container_statuses", None) or ():
        waiting = container.state and container.state.waiting
        if waiting:
            told.append(_joined(waiting.reason, waiting.message))
    return "\n".join(told)
