"""``spark-operator``: the query is a ``SparkApplication``, which an operator on Kubernetes runs.

The application has its submission's name, so there cannot be two. Beside it is a Secret of the same
name, which belongs to it and goes with it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import (
    Backend,
    DriverState,
    DriverStatus,
    Handle,
    label_of,
)
from airflow_provider_continuous.deploy.driver_log import end_of_driver
from airflow_provider_continuous.deploy.managers.contract import ANSWER_S
from airflow_provider_continuous.deploy.managers.kubernetes import LABEL, Kubernetes
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.settings import OPERATOR_MODE
from airflow_provider_continuous.deploy.spark_operator.clients import (
    Clients,
    is_open,
    may_pass,
    why,
)
from airflow_provider_continuous.deploy.spark_operator.template import (
    SUBMISSION_LABEL,
    Template,
)
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.deploy.submitted import QueryStartError
from engine.errors import ConfigError, ContinuousError

logger = logging.getLogger(__name__)

_PLURAL = "sparkapplications"
_NOT_FOUND = 404
_CREATED_S = 65.0
"""An API server gives a request up within a minute, and what it asks about an application first,
an operator's webhook, may take half of that. Until then the application may yet come to be."""


class SparkOperator(Backend):
    """See the module."""

    name = OPERATOR_MODE

    def __init__(self, template: Template, options: SubmitOptions, clients: Clients) -> None:
        self._template, self._options, self._clients = template, options, clients
        self._pods = Kubernetes(template.namespace, clients.core)
        self._kind = (template.operator.group, template.version, template.namespace, _PLURAL)

    @property
    def place(self) -> str:
        """As :attr:`Handle.cluster` has it."""
        host, template = self._clients.host, self._template
        return f"{host}, {template.namespace}, {template.operator.group}"

    def ask(self) -> None:
        """Ask for one application, whichever; and for no Secret and pod, in vain.

        :raises ConfigError: the API server does not answer, or refuses.
        """
        core, where = self._clients.core, self._template.namespace
        ask = {"limit": 1, "_request_timeout": ANSWER_S}
        try:
            self._clients.custom.list_namespaced_custom_object(*self._kind, **ask)
            for listed in (core.list_namespaced_secret, core.list_namespaced_pod):
                listed(where, label_selector=f"{SUBMISSION_LABEL}=none", **ask)
        except Exception as error:  # of a package that need not be installed
            raise ConfigError(f"{self.place}: {why(error)}.", hint=self._hint(error)) from error

    def check_document(self, document: Mapping[str, Any]) -> None:
        """Look whether a specification can be sent to such a driver.

        :raises ConfigError: it cannot.
        """
        handle = Handle(self.name, label_of(""), 0)
        self._template.application(Submission(document, Path()), handle, self._options)

    def submit(self, submission: Submission, handle: Handle) -> Handle:
        """Create the Secret and the application. Where the API server leaves it open whether the
        application is there, the handle says that it is: the next look tells.

        :raises ConfigError: the API server refuses one of them.
        :raises QueryStartError: it does so for now, or does not answer; nothing was started.
        """
        secret, application = self._template.application(submission, handle, self._options)
        self._forget(f"{LABEL}={handle.label}")
        core, where = self._clients.core, self._template.namespace
        try:
            core.create_namespaced_secret(where, secret, _request_timeout=ANSWER_S)
        except Exception as error:  # as above
            self._forget(_selector(handle))
            raise self._refused("Secret", handle, error) from error
        created: Mapping[str, Any] | None = None
        try:
            created = self._clients.custom.create_namespaced_custom_object(
                *self._kind,
                application,
                field_validation="Strict",  # else the server drops what is misspelt, in silence
                _request_timeout=(ANSWER_S, _CREATED_S),
            )
        except Exception as error:  # as above
            if not is_open(error):
                self._forget(_selector(handle))
                raise self._refused("SparkApplication", handle, error) from error
            logger.warning("Whether %s was created is open: %s", handle.name, why(error))
            with suppress(Exception):  # as above: the next look tells
                created = self._read(handle)
        if created is not None:
            self._give(secret, created)
        return replace(handle, driver_id=handle.name)

    def find(self, handle: Handle) -> Handle:
        """Look whether the application was created."""
        if handle.driver_id is not None:
            return handle
        try:
            found = self._read(handle)
        except Exception:  # as above: the status tells
            return handle
        return handle if found is None else replace(handle, driver_id=handle.name)

    def status(self, handle: Handle) -> DriverStatus:
        """Ask for the application; where it is gone or has ended, for the driver's pod: an operator
        may give an application up, and leave a pod that waits or runs."""
        name = f"SparkApplication {handle.name}"
        try:
            application = self._read(handle)
            told = None if application is None else self._template.status(application)
            if told is not None and told.state is not DriverState.ENDED:
                return told
            pods = self._drivers(handle)
        except Exception as error:  # as above
            return DriverStatus(DriverState.UNKNOWN, f"{name}: {why(error)}")
        if pods:
            what = f"{name} is gone" if told is None else told.detail
            return DriverStatus(DriverState.RUNNING, f"{what}, and pod {pods[0]} is there")
        if told is not None:
            return told
        gone = DriverStatus(DriverState.ENDED, f"there is no {name}", seen=False)
        if handle.driver_id is not None:
            return gone
        submits = processes.status(handle)
        if submits.state is DriverState.UNKNOWN:
            return submits if handle.may_be_unseen else gone
        return submits

    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        """Delete the application, and the driver's pod."""
        try:
            found = self._read(handle)
            if found is not None:
                self._clients.custom.delete_namespaced_custom_object(
                    *self._kind, handle.name, _request_timeout=ANSWER_S
                )
            asked = [self._pods.kill(pod, handle) for pod in self._drivers(handle)]
        except Exception as error:  # as above
            logger.warning("%s was not deleted: %s", handle.name, why(error))
            return False
        self._forget(_selector(handle))
        return found is not None or any(asked)

    def last_words(self, handle: Handle) -> str:
        """Read the end of the log of the driver's pod, if it is there."""
        try:
            pods = self._drivers(handle, ended=True)
        except Exception:  # as above
            return ""
        return end_of_driver(self._pods.last_words(pods[-1], handle)) if pods else ""

    def _refused(self, kind: str, handle: Handle, error: Exception) -> ContinuousError:
        passes = is_open(error) or may_pass(error)
        return (QueryStartError if passes else ConfigError)(
            f"The {kind} {handle.name}: {why(error)}.", hint=self._hint(error)
        )

    def _hint(self, error: Exception) -> str | None:
        if getattr(error, "status", None) != _NOT_FOUND:
            return None
        kind, version = f"{_PLURAL}.{self._template.operator.group}", self._template.version
        return (
            f"Is there the namespace, and is the operator installed, with the version {version} of "
            f"its kind? kubectl get crd {kind} -o yaml"
        )

    def _read(self, handle: Handle) -> Mapping[str, Any] | None:
        """The application, if it is this checkpoint's; None: there is none."""
        try:
            found: Mapping[str, Any] = self._clients.custom.get_namespaced_custom_object(
                *self._kind, handle.name, _request_timeout=ANSWER_S
            )
        except Exception as error:  # as above
            if getattr(error, "status", None) == _NOT_FOUND:
                return None
            raise
        labels = found["metadata"].get("labels") or {}
        return found if labels.get(LABEL) == handle.label else None

    def _drivers(self, handle: Handle, *, ended: bool = False) -> list[str]:
        """The names of its driver's pods.

        :param ended: those, too, that have.
        """
        found = self._clients.core.list_namespaced_pod(
            self._template.namespace,
            label_selector=f"{_selector(handle)},spark-role=driver",
            _request_timeout=ANSWER_S,
        )
        return [
            pod.metadata.name
            for pod in found.items
            if ended or getattr(pod.status, "phase", None) not in ("Succeeded", "Failed")
        ]

    def _give(self, secret: Mapping[str, Any], application: Mapping[str, Any]) -> None:
        """Let the Secret go with its application."""
        name = application["metadata"]["name"]
        owner = {
            "apiVersion": application["apiVersion"],
            "kind": application["kind"],
            "name": name,
            "uid": application["metadata"]["uid"],
        }
        owned = {**secret, "metadata": {**secret["metadata"], "ownerReferences": [owner]}}
        try:
            self._clients.core.replace_namespaced_secret(
                name, self._template.namespace, owned, _request_timeout=ANSWER_S
            )
        except Exception as error:  # as above
            logger.warning("The Secret %s stays until the next start: %s", name, why(error))

    def _forget(self, selector: str) -> None:
        """Delete Secrets, those of submissions of before: their drivers have read them."""
        core, where = self._clients.core, self._template.namespace
        try:
            found = core.list_namespaced_secret(
                where, label_selector=selector, _request_timeout=ANSWER_S
            )
            for secret in found.items:
                core.delete_namespaced_secret(
                    secret.metadata.name, where, _request_timeout=ANSWER_S
                )
        except Exception as error:  # as above
            logger.warning("Secrets of %s stay in %s: %s", selector, where, why(error))


def _selector(handle: Handle) -> str:
    return f"{SUBMISSION_LABEL}={handle.name}"
