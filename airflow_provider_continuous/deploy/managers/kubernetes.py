"""Kubernetes: the driver's pod has its submission's name, so there cannot be two, and the
checkpoint's label.

Asked by the client that the Spark provider uses, with its configuration (the provider
``cncf.kubernetes``, section ``[kubernetes_executor]``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.managers.contract import (
    ANSWER_S,
    REFUSES,
    WORDS_BYTES_MAX,
    Manager,
)

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
    """

    id_is_proof = False

    def __init__(self, namespace: str, client: Any) -> None:
        self._namespace, self._client = namespace, client

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
                why = f"there is no pod {driver_id}"
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

    def _own_pod(self, driver_id: str, handle: Handle) -> Any:
        if self._client is None:
            return None
        pod = self._client.read_namespaced_pod(
            driver_id, self._namespace, _request_timeout=ANSWER_S
        )
        return pod if (pod.metadata.labels or {}).get(LABEL) == handle.label else None


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
