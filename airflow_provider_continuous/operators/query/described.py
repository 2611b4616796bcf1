"""What an operator is told of a query: its parameters, and the document that they make."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, get_current_context
from jinja2 import TemplateError

from airflow_provider_continuous.deferral import defers, wait_or_defer
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.links.query import QUERY_LINKS
from airflow_provider_continuous.openlineage.operators import QueryLineage
from airflow_provider_continuous.reconcile import OnChanged, check_on_changed
from airflow_provider_continuous.tasks.arguments import check_found, duration, given
from airflow_provider_continuous.tasks.killing import KillAction, check_action
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event
from engine.errors import ConfigError
from engine.query.spec import read_text
from engine.redaction.logs import redact

if TYPE_CHECKING:
    from airflow.sdk import Context


class DescribedQueryOperator(QueryLineage, BaseOperator):
    """Has a specification, and says how to wait for its query.

    Its parameters are described where it is used first, at
    :class:`~airflow_provider_continuous.operators.query.start.StartContinuousQueryOperator`.
    """

    operator_extra_links = QUERY_LINKS
    template_fields: Sequence[str] = (
        "spec",
        "query",
        "checkpoint_location",
        "query_name",
        "continuous_conn_id",
        "storage_conn_id",
        "source_connection",
        "sink_connection",
        "connections",
        "environment",
        "spark_submit",
    )
    template_fields_renderers = {"spec": "json"}  # noqa: RUF012  # Airflow's declaration
    ui_color = "#e4f4de"

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str | None = None,
        query: str | None = None,
        checkpoint_location: str | None = None,
        query_name: str | None = None,
        timeout: timedelta | float = 600.0,
        continuous_conn_id: str = ContinuousQueryHook.default_conn_name,
        storage_conn_id: str | None = None,
        source_connection: str | None = None,
        sink_connection: str | None = None,
        connections: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        spark_submit: Mapping[str, Any] | None = None,
        poll_interval: timedelta | float = 1.0,
        deferrable: bool | None = None,
        on_kill_action: KillAction = "detach",
        on_changed: OnChanged = "refuse",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_changed = check_on_changed(on_changed)
        if (spec is None) == (query is None):
            raise ValueError(f"{self.task_id}: give exactly one of spec and query.")
        self.spec = spec
        self.query = query
        self.checkpoint_location = checkpoint_location
        self.query_name = query_name
        self.timeout = duration(f"{self.task_id}: timeout", timeout)
        self.continuous_conn_id = continuous_conn_id
        self.storage_conn_id = storage_conn_id
        self.source_connection = source_connection
        self.sink_connection = sink_connection
        self.connections = connections
        self.environment = environment
        self.secrets = secrets
        self.spark_submit = spark_submit
        self.poll_interval = duration(f"{self.task_id}: poll_interval", poll_interval)
        self.deferrable = defers(f"{self.task_id}: deferrable", deferrable)
        self.on_kill_action = check_action(on_kill_action)
        self._said = given(
            checkpoint_location=checkpoint_location,
            query_name=query_name,
            continuous_conn_id=continuous_conn_id,
            storage_conn_id=storage_conn_id,
            source_connection=source_connection,
            sink_connection=sink_connection,
            connections=connections,
            environment=environment,
            spark_submit=spark_submit,
        )
        self._given_deadline: float | None = None

    def _query_hook(self) -> ContinuousQueryHook:
        """:raises ConfigError: the template of an argument has found nothing."""
        check_found(self, self._said)
        return ContinuousQueryHook(
            self.continuous_conn_id,
            self.storage_conn_id,
            environment=self.environment,
            secrets=self.secrets,
            spark_submit=self.spark_submit,
        )

    def _document(
        self, hook: ContinuousQueryHook, spec: Mapping[str, Any] | str | None = None
    ) -> dict[str, Any]:
        """Return the complete specification of this operator or, instead of it, of another one.

        :raises ConfigError: lists everything that is wrong with it.
        """
        readable = self._readable(self.spec if spec is None else spec)
        return hook.specification(
            readable,
            text=self._rendered(readable) if isinstance(readable, Path) else None,
            query=self.query if spec is None else None,
            **self._overrides(),
        )

    def _rendered(self, path: Path) -> str | None:
        """Return what a specification's file says, its templates rendered.

        :raises ConfigError: one of them is none, or names what there is not.
        """
        text = read_text(path)
        if not any(mark in text for mark in ("{{", "{%", "{#")):
            return text
        try:
            found = self.render_template(text, get_current_context(), self.get_template_env())
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f", line {line}," if line else ""
            raise ConfigError(
                f"{path}{where} cannot be rendered: {redact(str(error))}.",
                hint="Templates in it see what those of the DAG file see: params, var, conn, ti.",
            ) from error
        # Of a DAG that renders native objects it may be one.
        return found if isinstance(found, str) else json.dumps(found)

    def _overrides(self) -> dict[str, Any]:
        """Return what the operator's arguments say over a specification."""
        return {
            "name": self.query_name,
            "checkpoint_location": self.checkpoint_location,
            "source_connection": self.source_connection,
            "sink_connection": self.sink_connection,
            "connections": self.connections,
        }

    def _readable(self, spec: Mapping[str, Any] | str | None) -> Mapping[str, Any] | Path:
        if spec is None or isinstance(spec, Mapping):
            return spec or {}
        path = Path(spec)
        return path if path.is_absolute() else Path(self.dag.fileloc).parent / path

    def _waiting(self, deadline: float | None) -> dict[str, Any]:
        """Return the arguments of a trigger."""
        return {
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval,
            "deadline": deadline,
        }

    def _wait(
        self, context: Context, trigger: CheckpointTrigger, method: str = "execute_complete"
    ) -> Event:
        """Wait here, or defer to a method of this operator, which takes over what is carried."""
        trigger.carried = TaskMemory(context).to_carry()
        return wait_or_defer(self, trigger, method) if self.deferrable else trigger.wait()

    def _deadline(self) -> float:
        """Return when to give up what begins now; what was begun before a wait in the triggerer
        has the deadline of then."""
        given, self._given_deadline = self._given_deadline, None
        return time.time() + self.timeout if given is None else given
