"""A submission as a ``SparkApplication``. Pure.

What is the user's is given as a template of the operator's own kind: the image with the engine, our
driver program in it, the service account, volumes, sizes. What a query adds are Spark's settings,
which both operators pass on. Its specification and its variables are in a Secret, of which the
driver gets each entry as a variable.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.driver_variables import PREFIXES
from airflow_provider_continuous.deploy.managers.kubernetes import LABEL, NAMESPACE, POD_NAME
from airflow_provider_continuous.deploy.options import SIZES, SubmitOptions
from airflow_provider_continuous.deploy.plan import SPECIFICATION, refuse_long
from airflow_provider_continuous.deploy.private_files import is_secret
from airflow_provider_continuous.deploy.spark_conf import spark_conf
from airflow_provider_continuous.deploy.spark_operator.kinds import (
    FROM_SECRET,
    OPERATORS,
    Operator,
    part,
)
from airflow_provider_continuous.deploy.submission import Submission
from engine.errors import ConfigError
from engine.redaction.logs import redact

SUBMISSION_LABEL: Final = "continuous-submission"
_WORDS_MAX = 500


@dataclass(frozen=True)
class Template:
    """What the connection says of applications.

    :param namespace: where they are.
    """

    operator: Operator
    version: str
    namespace: str
    body: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, given: Mapping[str, Any], namespace: str | None) -> Template:
        """Read a connection's field ``spark-application``.

        :param namespace: where the template names none; None: ``default``.
        :raises ConfigError: it cannot be used.
        """
        group, _, version = str(given.get("apiVersion") or "").partition("/")
        operator = OPERATORS.get(group)
        if operator is None or not version or given.get("kind") != "SparkApplication":
            raise ConfigError(
                f"The connection's spark-application is of kind {given.get('kind')!r}, "
                f"{given.get('apiVersion')!r}.",
                hint="It is a SparkApplication of sparkoperator.k8s.io/v1beta2 (Kubeflow's "
                "operator) or of spark.apache.org/v1 (Apache's), without name and arguments.",
            )
        body = copy.deepcopy(dict(given))
        metadata, spec = part(body, "metadata"), part(body, "spec")
        part(metadata, "labels")
        part(spec, "sparkConf")
        if not spec.get(operator.program):
            raise ConfigError(
                f"The connection's spark-application has no spec.{operator.program}.",
                hint="It names our driver program in the image, engine/commands/application.py "
                "where pip has installed the package: local:///.../application.py.",
            )
        for place, holder in (("metadata.name", metadata), (f"spec.{operator.arguments}", spec)):
            if holder.get(place.partition(".")[2]):
                raise ConfigError(
                    f"The connection's spark-application has {place}.",
                    hint="Leave it out: each submission has its own.",
                )
        where = str(metadata.get("namespace") or namespace or "default")
        template = cls(operator, version, where, copy.deepcopy(body))
        operator.complete(spec, {})
        return template

    def application(
        self, submission: Submission, handle: Handle, options: SubmitOptions
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the Secret and the application of a submission, both of its name.

        :raises ConfigError: something cannot be sent to such a driver.
        """
        _refuse_others(options)
        document = dict(submission.document)
        if document.pop("python_path", None):
            raise ConfigError(
                "python_path cannot be sent to a driver that an operator on Kubernetes starts.",
                hint="Install the modules in the image, or name a URL in spark_submit.conf, "
                "spark.submit.pyFiles.",
            )
        body = copy.deepcopy(dict(self.body))
        spec = body["spec"]
        labels = {LABEL: handle.label, SUBMISSION_LABEL: handle.name}
        sizes = {
            setting: getattr(options, name)
            for name, setting in SIZES.items()
            if getattr(options, name) is not None
        }
        variables = dict(submission.variables)
        conf = spark_conf(
            document.pop("conf", None),
            sizes,
            options.conf,
            marks={
                NAMESPACE: self.namespace,
                POD_NAME: f"{handle.name}-driver",
                **{f"spark.kubernetes.driver.label.{key}": told for key, told in labels.items()},
                **{
                    f"{FROM_SECRET}{name}": f"{handle.name}:{name}"
                    for name in (*variables, SPECIFICATION)
                },
            },
        )
        private = _private(conf)
        public = {key: value for key, value in conf.items() if key not in private}
        part(spec, "sparkConf").update(self.operator.complete(spec, public))
        spec[self.operator.arguments] = [f"env:{SPECIFICATION}"]
        metadata = part(body, "metadata")
        metadata |= {"name": handle.name, "namespace": self.namespace}
        part(metadata, "labels").update(labels)
        # ASCII: Java may have no locale.
        variables[SPECIFICATION] = json.dumps({**document, "conf": private})
        refuse_long(variables)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": handle.name, "namespace": self.namespace, "labels": labels},
            "data": {
                name: base64.b64encode(value.encode()).decode() for name, value in variables.items()
            },
        }
        return secret, body

    def status(self, application: Mapping[str, Any]) -> DriverStatus:
        """Return what an application says of its driver."""
        name = f"SparkApplication {application['metadata']['name']}"
        state, why = self.operator.said(application.get("status") or {})
        if not state:
            return DriverStatus(DriverState.STARTING, f"{name}: no operator has looked at it yet")
        told = f"{name} is {state}"
        if why:
            told += f": {redact(why)[:_WORDS_MAX]}"
        return DriverStatus(self.operator.states.get(state, DriverState.STARTING), told)


def _private(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings that only the driver gets. Those of its pod go to the operator: they name secrets.

    :raises ConfigError: one of the latter holds one.
    """
    secret = {key: value for key, value in conf.items() if is_secret(key, value)}
    pod = {key: value for key, value in secret.items() if key.startswith("spark.kubernetes.")}
    if shown := [key for key, value in pod.items() if _holds_one(key, value)]:
        raise ConfigError(
            f"The setting {shown[0]} would show a secret in the SparkApplication.",
            hint="Give it as environment or as secrets: they go along in a Secret.",
        )
    return {key: value for key, value in secret.items() if key not in pod}


def _holds_one(key: str, value: str) -> bool:
    holds = key.startswith(PREFIXES["kubernetes"]) or key.endswith(".oauthToken")
    return holds or is_secret("spark.kubernetes", value)


def _refuse_others(options: SubmitOptions) -> None:
    known = {"conf", *SIZES} - {"total_executor_cores"}
    if given := [name for name in options.given if name not in known]:
        raise ConfigError(
            f"spark_submit has {', '.join(given)}, and an operator on Kubernetes submits.",
            hint=f"It takes {', '.join(sorted(known))} there; the rest belongs into the "
            "connection's spark-application, or into conf as settings of Spark.",
        )
