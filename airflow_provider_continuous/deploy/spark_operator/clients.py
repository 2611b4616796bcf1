"""Kubernetes' API server, as a connection of Airflow's provider for Kubernetes reaches it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from airflow_provider_continuous.compat import AirflowNotFoundException
from engine.errors import ConfigError
from engine.redaction.logs import redact


@dataclass(frozen=True)
class Clients:
    """A connection of type ``kubernetes``, opened.

    :param custom: Kubernetes' client ``CustomObjectsApi``.
    :param core: ``CoreV1Api``.
    :param host: the API server's address.
    :param namespace: that the connection names.
    """

    custom: Any
    core: Any
    host: str
    namespace: str | None

    @classmethod
    def open(cls, conn_id: str) -> Clients:
        """By Airflow's provider for Kubernetes.

        :raises ConfigError: it is not installed, or the connection cannot be used.
        """
        try:
            from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
        except ImportError as error:
            raise ConfigError(
                f"The deploy mode spark-operator needs Airflow's Kubernetes provider: {error}.",
                hint="pip install apache-airflow-providers-cncf-kubernetes",
            ) from error
        hook = KubernetesHook(conn_id=conn_id)
        try:
            custom, core = hook.custom_object_client, hook.core_v1_client
            return cls(custom, core, core.api_client.configuration.host, hook.get_namespace())
        except AirflowNotFoundException:
            raise ConfigError(
                f"There is no connection {conn_id!r}, which kubernetes-conn-id names.",
                hint="Create it, of type 'kubernetes': it says how the API server is reached.",
            ) from None
        except Exception as error:  # of a package that need not be installed
            raise ConfigError(
                f"The connection {conn_id!r} leads to no Kubernetes: {redact(str(error))}"
            ) from error


def is_open(error: Exception) -> bool:
    """Whether the API server may have done what it was asked, or may do it yet; a name that is
    there was taken by this submission itself."""
    status = getattr(error, "status", None)
    return not isinstance(status, int) or status >= 500 or status in (408, 409)


def may_pass(error: Exception) -> bool:
    """Whether a refusal may pass: an access that has expired, too much at once, a used-up quota."""
    return getattr(error, "status", None) in (401, 429) or "quota" in why(error)


def why(error: Exception) -> str:
    """What an API server has answered, without secrets: not what was sent to it."""
    try:
        told = json.loads(getattr(error, "body", None) or "{}")
    except ValueError:
        told = {}
    message = told.get("message") if isinstance(told, dict) else None
    status = getattr(error, "status", None)
    if status is None:
        return f"Kubernetes does not answer ({type(error).__name__})"
    return redact(f"Kubernetes answers {status}: {message or getattr(error, 'reason', '')}")[:500]
