"""What a connection of type ``continuous`` says about queries and how they are deployed."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_continuous import configuration
from airflow_provider_continuous.compat import AirflowNotFoundException
from airflow_provider_continuous.connections.fields import extra_of
from airflow_provider_continuous.connections.location import CONN_TYPE, DEFAULT
from airflow_provider_continuous.connections.lookup import find, value_at
from airflow_provider_continuous.deploy.options import options_over
from engine.errors import ConfigError
from engine.redaction.logs import redact

logger = logging.getLogger(__name__)

OPERATOR_MODE: Final = "spark-operator"
DEPLOY_MODES = ("local", "spark-submit", OPERATOR_MODE)
_FIELDS: Final = (
    "deploy-mode",
    "checkpoint-root",
    "log-dir",
    "conf",
    "environment",
    "environment-from",
    "python",
    "spark-conn-id",
    "spark_submit",
    "kubernetes-conn-id",
    "spark-application",
)


@dataclass(frozen=True)
class ConnectionSettings:
    """What a connection of type ``continuous`` says; the defaults are those of no connection.

    :param deploy_mode: one of :data:`DEPLOY_MODES`.
    :param conf: Spark's settings for every query.
    :param python: the interpreter of drivers on this machine; None: Airflow's own.
    :param spark_conn_id: for spark-submit: the connection of the Spark provider.
    :param environment: environment variables of the query.
    :param secrets: environment variables whose values are in connections: ``conn_id.password``, or
        another place of :func:`airflow_provider_continuous.connections.lookup.value_at`.
    :param spark_submit: see :class:`airflow_provider_continuous.deploy.options.SubmitOptions`.
    :param kubernetes_conn_id: for spark-operator: the connection of the Kubernetes provider.
    :param spark_application: for spark-operator: what
        :class:`airflow_provider_continuous.deploy.spark_operator.template.Template` reads.
    """

    deploy_mode: str = "local"
    checkpoint_root: str | None = None
    log_dir: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spark_conn_id: str = "spark_default"
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)
    spark_submit: Mapping[str, Any] = field(default_factory=dict, repr=False)
    python: str | None = field(default_factory=configuration.python)
    kubernetes_conn_id: str = "kubernetes_default"
    spark_application: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def with_more(
        self,
        environment: Mapping[str, str] | None,
        secrets: Mapping[str, str] | None,
        spark_submit: Mapping[str, Any] | None,
    ) -> ConnectionSettings:
        """Return these settings with a task's own, which go first.

        :raises ConfigError: one of them has no names, or two say the same.
        """
        given = {"environment": environment, "secrets": secrets, "spark_submit": spark_submit}
        for name, value in given.items():
            if value is not None and not isinstance(value, Mapping):
                raise ConfigError(  # without the value, which may be a secret
                    f"{name} is a {type(value).__name__}, and no names with their values.",
                    hint="A template is text, unless the DAG has render_template_as_native_obj: "
                    "say an object, and templates of its values.",
                )
        environment, secrets = environment or {}, secrets or {}
        if twice := sorted(set(environment) & set(secrets)):
            raise ConfigError(
                f"{twice[0]} is in environment and in secrets.", hint="Leave one of them out."
            )
        own = {name: place for name, place in self.secrets.items() if name not in environment}
        return replace(
            self,
            environment={**self.environment, **environment},
            secrets={**own, **secrets},
            spark_submit=options_over(self.spark_submit, spark_submit or {}),
        )

    def variables(self) -> dict[str, str]:
        """Return the query's own environment variables, those from connections too.

        Airflow hides the values of secrets in its logs from then on.

        :raises ConfigError: a name is none, or a connection or its field is not there.
        """
        found = {name: str(value) for name, value in self.environment.items()}
        found |= {name: _of_connection(name, place) for name, place in self.secrets.items()}
        for name, value in found.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ConfigError(f"{name!r} is no name of an environment variable.")
            if name in self.secrets or redact(f"{name}={value}") != f"{name}={value}":
                mask_secret(value)
        return found


def settings_of(conn_id: str) -> ConnectionSettings:
    """Return what a connection says; :data:`DEFAULT` need not exist.

    :raises ConfigError: a connection that was named does not exist, or is not usable.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        if conn_id != DEFAULT:
            raise ConfigError(
                f"There is no connection {conn_id!r}.",
                hint="Create it, of type 'continuous', or leave continuous_conn_id out.",
            ) from None
        logger.info("No connection %r: local queries, no defaults", conn_id)
        return ConnectionSettings()
    if connection.conn_type != CONN_TYPE:
        raise ConfigError(
            f"The connection {conn_id!r} is of type "
            f"{connection.conn_type!r}, and not {CONN_TYPE!r}."
        )
    return _read(conn_id, extra_of(connection))


def _read(conn_id: str, extra: Mapping[str, Any]) -> ConnectionSettings:
    if extra.get("secrets"):
        raise ConfigError(
            f"The connection {conn_id!r} has the field secrets.",
            hint="It is called environment-from now: Airflow's form showed secrets as ***, and "
            "saved that.",
        )
    for key in extra:
        if key not in _FIELDS and extra[key] != "":
            close = get_close_matches(key.replace("_", "-"), _FIELDS, n=1)
            raise ConfigError(
                f"The connection {conn_id!r} has the field {key!r}, which type {CONN_TYPE!r} does "
                "not know.",
                hint=f"Did you mean {close[0]}?" if close else f"It has {', '.join(_FIELDS)}.",
            )
    mode = extra.get("deploy-mode") or "local"
    if mode not in DEPLOY_MODES:
        raise ConfigError(
            f"The connection {conn_id!r} names the deploy mode {mode!r}.",
            hint=f"There are: {', '.join(DEPLOY_MODES)}.",
        )
    return ConnectionSettings(
        mode,
        extra.get("checkpoint-root") or None,
        extra.get("log-dir") or None,
        _object(conn_id, extra, "conf", "configuration"),
        extra.get("spark-conn-id") or "spark_default",
        _object(conn_id, extra, "environment", "environment"),
        _object(conn_id, extra, "environment-from", "field environment-from"),
        _object(conn_id, extra, "spark_submit", "spark_submit field"),
        extra.get("python") or configuration.python(),
        extra.get("kubernetes-conn-id") or "kubernetes_default",
        _object(conn_id, extra, "spark-application", "field spark-application"),
    )


def _object(conn_id: str, extra: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    value = extra.get(key) or {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise ConfigError(f"The {name} of the connection {conn_id!r} is no JSON object.")
    return value


def _of_connection(name: str, place: str) -> str:
    conn_id, _, part = str(place).partition(".")
    wanted_by = f"the secret {name}"
    return value_at(find(conn_id, wanted_by), part, wanted_by)
