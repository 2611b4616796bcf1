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
FROM_SECRET: Final = "spark.kubernetes.driver.secretKeyRef."  # noqa: S105  # a name
"""Settings that name an entry of a Secret for a variable of the driver."""


class Operator(ABC):
    """One operator's kind of application."""

    group: ClassVar[str]
    program: ClassVar[str]
    """The field of the specification that names the driver program."""
    arguments: ClassVar[str]
    """That of its arguments."""
    states: ClassVar[Mapping[str, DriverState]]

    @abstractmethod
    def complete(self, spec: dict[str, Any], conf: Mapping[str, str]) -> dict[str, str]:
        """Set what the template leaves out, and the fields that stand for settings.

        :param conf: the submission's settings, which go before the template's fields.
        :returns: those that have no field.
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
    # Its fields hide what sparkConf says, and its webhook refuses some of these settings there.
    _fields: ClassVar = {
        "spark.kubernetes.container.image": ("", "image"),
        "spark.kubernetes.driver.pod.name": ("driver", "podName"),
        "spark.kubernetes.driver.master": ("driver", "kubernetesMaster"),
        "spark.executor.instances": ("executor", "instances"),
        **{
            setting.format(role): (role, field)
            for role in ("driver", "executor")
            for setting, field in (
                ("spark.{}.cores", "cores"),
                ("spark.{}.memory", "memory"),
                ("spark.{}.memoryOverhead", "memoryOverhead"),
                ("spark.{}.extraJavaOptions", "javaOptions"),
                ("spark.kubernetes.{}.container.image", "image"),
                ("spark.kubernetes.{}.request.cores", "coreRequest"),
                ("spark.kubernetes.{}.limit.cores", "coreLimit"),
                ("spark.kubernetes.authenticate.{}.serviceAccountName", "serviceAccount"),
            )
        },
    }
    _numbers: ClassVar = ("cores", "instances")

    def complete(self, spec: dict[str, Any], conf: Mapping[str, str]) -> dict[str, str]:
        """See the base."""
        _only(spec, "type", "Python")
        _only(spec, "mode", "cluster")
        _only(part(spec, "restartPolicy"), "type", "Never")
        spec.setdefault("timeToLiveSeconds", _KEPT_S)
        parts = {"": spec, "driver": part(spec, "driver"), "executor": part(spec, "executor")}
        others = dict(conf)
        for setting in self._fields.keys() & conf.keys():
            place, field = self._fields[setting]
            value = others.pop(setting)
            is_number = field in self._numbers and value.isdecimal()
            parts[place][field] = int(value) if is_number else value
        _leave_out(parts["driver"], {key.removeprefix(FROM_SECRET) for key in conf})
        return others

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

    def complete(self, spec: dict[str, Any], conf: Mapping[str, str]) -> dict[str, str]:
        """See the base."""
        _only(spec, "deploymentMode", "ClusterMode")
        for field in ("jars", "sparkRFiles"):
            if spec.get(field):  # jars would be run instead of the program
                raise ConfigError(
                    f"The connection's spark-application has spec.{field}.",
                    hint="A query is a Python program. Name jars in sparkConf, as spark.jars.",
                )
        tolerations = part(spec, "applicationTolerations")
        _only(part(tolerations, "restartConfig"), "restartPolicy", "Never")
        timeouts = part(tolerations, "applicationTimeoutConfig")
        for name in ("driverStart", "driverReady", "executorStart"):
            # How long a start may take is for its task to say, whose end is a deletion.
            timeouts.setdefault(f"{name}TimeoutMillis", 0)
        tolerations.setdefault("resourceRetainPolicy", "OnFailure")
        tolerations.setdefault("ttlAfterStopMillis", _KEPT_S * 1000)
        return dict(conf)

    def said(self, status: Mapping[str, Any]) -> tuple[str, str]:
        """See the base."""
        state = status.get("currentState") or {}
        name, why = _summary(state)
        if self.states.get(name) is DriverState.ENDED:
            # It says itself that it has ended; why is said by the state before.
            history = status.get("stateTransitionHistory") or {}
            for number in sorted(history, key=int)[-2:-1]:
                why = f"{': '.join(filter(None, _summary(history[number])))}; {why}"
        return name, why


OPERATORS = {operator.group: operator for operator in (Kubeflow(), Apache())}


def part(holder: dict[str, Any], field: str) -> dict[str, Any]:
    """Return an object of a template, made where there is none.

    :raises ConfigError: it is something else.
    """
    if holder.get(field) is None:
        holder[field] = {}
    found = holder[field]
    if not isinstance(found, dict):
        raise ConfigError(
            f"The connection's spark-application has {field} as {type(found).__name__}, and it is "
            "an object there."
        )
    return found


def _leave_out(driver: dict[str, Any], names: set[str]) -> None:
    """Variables that the operator would put behind those of settings, where the last one counts."""
    if isinstance(driver.get("env"), list):  # else the server says what is wrong with it
        driver["env"] = [
            each
            for each in driver["env"]
            if not (isinstance(each, Mapping) and each.get("name") in names)
        ]
    if driver.get("envSecretKeyRefs"):
        references = part(driver, "envSecretKeyRefs")
        driver["envSecretKeyRefs"] = {
            name: place for name, place in references.items() if name not in names
        }


def _summary(state: Mapping[str, Any]) -> tuple[str, str]:
    return str(state.get("currentStateSummary") or ""), str(state.get("message") or "")


def _only(holder: dict[str, Any], field: str, value: str) -> None:
    if holder.setdefault(field, value) != value:
        raise ConfigError(
            f"The connection's spark-application says {field}: {holder[field]}.",
            hint=f"It has to be {value}: a query is a Python program whose driver is on the "
            "cluster, and is started again by its task alone.",
        )
