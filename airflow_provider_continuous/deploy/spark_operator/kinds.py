"""The two operators that run a ``SparkApplication`` on Kubernetes: what each asks for, and what it
tells.

- Kubeflow's: ``sparkoperator.k8s.io``, fields and states as in its ``sparkapplication_types.go``
- Apache's: ``spark.apache.org``, as in its ``ApplicationSpec.java`` and
  ``ApplicationStateSummary.java``
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from airflow_provider_continuous.deploy.contract import DriverState
from engine.errors import ConfigError

_KEPT_S: Final = 86_400
"""So long an application that has ended stays, with its log, where the template says nothing."""


class Operator(ABC):
    """One operator's kind of application."""

    group: ClassVar[str]
    program: ClassVar[str]
    """The field of the specification that names the driver program."""
    arguments: ClassVar[str]
    """That of its arguments."""
    states: ClassVar[Mapping[str, DriverState]]

    @abstractmethod
    def complete(self, spec: dict[str, Any], conf: Mapping[str, str]) -> None:
        """Set what the template leaves out, and take away what would win over settings.

        :raises ConfigError: the template says something that cannot be.
        """

    @abstractmethod
    def said(self, status: Mapping[str, Any]) -> tuple[str, str]:
        """Return the state as the operator calls it, empty before it has looked; and why."""


class Kubeflow(Operator):
    """See the module."""

    group = "sparkoperator.k8s.io"
    program = "mainApplicationFile"
    arguments = "arguments"
    states: ClassVar = {
        "RUNNING": DriverState.RUNNING,
        "SUCCEEDING": DriverState.RUNNING,
        "FAILING": DriverState.RUNNING,
        "COMPLETED": DriverState.ENDED,
        "FAILED": DriverState.ENDED,
        "UNKNOWN": DriverState.UNKNOWN,
    }
    _fields: ClassVar = {
        "spark.kubernetes.container.image": ("", "image"),
        **{
            f"spark.{role}.{setting}": (role, field)
            for role in ("driver", "executor")
            for setting, field in (
                ("cores", "cores"),
                ("memory", "memory"),
                ("memoryOverhead", "memoryOverhead"),
                ("extraJavaOptions", "javaOptions"),
            )
        },
        "spark.executor.instances": ("executor", "instances"),
    }

    def complete(self, spec: dict[str, Any], conf: Mapping[str, str]) -> None:
        """See the base."""
        _only(spec, "type", "Python")
        _only(spec, "mode", "cluster")
        _only(spec.setdefault("restartPolicy", {}), "type", "Never")
        spec.setdefault("timeToLiveSeconds", _KEPT_S)
        spec.setdefault("driver", {})
        spec.setdefault("executor", {})
        for setting, (part, field) in self._fields.items():
            if setting in conf:
                (spec[part] if part else spec).pop(field, None)

    def said(self, status: Mapping[str, Any]) -> tuple[str, str]:
        """See the base."""
        state = status.get("applicationState") or {}
        return str(state.get("state") or ""), str(state.get("errorMessage") or "")


class Apache(Operator):
    """See the module."""

    group = "spark.apache.org"
    program = "pyFiles"
    arguments = "driverArgs"
    states: ClassVar = {
        **dict.fromkeys(
            (
                "DriverStarted",
                "DriverReady",
                "InitializedBelowThresholdExecutors",
                "RunningHealthy",
                "RunningWithPartialCapacity",
                "RunningWithBelowThresholdExecutors",
                # It has ended, or is being ended; when nothing of it runs the operator says so.
                "DriverStartTimedOut",
                "ExecutorsStartTimedOut",
                "DriverReadyTimedOut",
                "Succeeded",
                "Failed",
                "SchedulingFailure",
                "DriverEvicted",
            ),
            DriverState.RUNNING,
        ),
        "ResourceReleased": DriverState.ENDED,
        "TerminatedWithoutReleaseResources": DriverState.ENDED,
    }

    def complete(self, spec: dict[str, Any], conf: Mapping[str, str]) -> None:
        """See the base."""
        tolerations = spec.setdefault("applicationTolerations", {})
        _only(tolerations.setdefault("restartConfig", {}), "restartPolicy", "Never")
        tolerations.setdefault("resourceRetainPolicy", "OnFailure")
        tolerations.setdefault("ttlAfterStopMillis", _KEPT_S * 1000)

    def said(self, status: Mapping[str, Any]) -> tuple[str, str]:
        """See the base."""
        state = status.get("currentState") or {}
        return str(state.get("currentStateSummary") or ""), str(state.get("message") or "")


OPERATORS = {operator.group: operator for operator in (Kubeflow(), Apache())}


def _only(holder: dict[str, Any], field: str, value: str) -> None:
    if holder.setdefault(field, value) != value:
        raise ConfigError(
            f"The connection's spark-application says {field}: {holder[field]}.",
            hint=f"It has to be {value}: a query is a Python program whose driver is on the "
            "cluster, and is started again by its task alone.",
        )
