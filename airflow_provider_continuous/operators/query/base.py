"""What all operators have in common that start a query."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator

from airflow_provider_continuous.assets.events import emit
from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deferral import wait_or_defer
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.driver_log import tail
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery, is_run_of
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.links.query import QUERY_LINKS
from airflow_provider_continuous.openlineage.operators import QueryLineage
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.tasks.arguments import seconds
from airflow_provider_continuous.tasks.killing import (
    EndsWithTask,
    KillAction,
    QueryOfTask,
    StartOfTask,
    TaskIdentity,
    check_action,
)
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.tasks.query_note import tell_query
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState

if TYPE_CHECKING:
    from airflow.sdk import Context

OnRunning = Literal["adopt", "fail", "replace"]
_SUBMISSIONS_MAX = 8
ON_KILL_S = 4.0
"""Airflow kills the process of a killed task after five seconds."""


class QueryStartingOperator(QueryLineage, BaseOperator):
    """Starts a query from a specification; how is up to the operators.

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
        poll_interval: float = 1.0,
        deferrable: bool = True,
        on_kill_action: KillAction = "detach",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (spec is None) == (query is None):
            raise ValueError(f"{self.task_id}: give exactly one of spec and query.")
        self.spec = spec
        self.query = query
        self.checkpoint_location = checkpoint_location
        self.query_name = query_name
        self.timeout = timeout
        self.continuous_conn_id = continuous_conn_id
        self.storage_conn_id = storage_conn_id
        self.source_connection = source_connection
        self.sink_connection = sink_connection
        self.connections = connections
        self.environment = environment
        self.secrets = secrets
        self.spark_submit = spark_submit
        self.poll_interval = poll_interval
        self.deferrable = deferrable
        self.on_kill_action = check_action(on_kill_action)
        self._watched: EndsWithTask | None = None

    def on_kill(self) -> None:
        """End the query as ``on_kill_action`` says, if somebody has ended this task indeed."""
        if self._watched is not None:
            self._watched.end_within(ON_KILL_S)
        elif self.on_kill_action != "detach":
            self.log.info("Killed before this task has started anything: no query is asked to end")

    # -- for the operators ------------------------------------------------------------------------

    def _query_hook(self) -> ContinuousQueryHook:
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
        return hook.specification(
            self._readable(self.spec if spec is None else spec),
            query=self.query if spec is None else None,
            **self._overrides(),
        )

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

    def _bring_up(
        self,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        context: Context,
        deadline: float,
        on_running: OnRunning = "adopt",
    ) -> CheckpointStatus:
        """Start the query, or adopt the run that holds its checkpoint; return its status.

        From here on ``on_kill`` knows the run.
        """
        location = str(document["checkpoint_location"])
        tell_query(context, location, self.storage_conn_id)
        running = hook.find(location)
        if running is None or self._makes_room(
            running, hook, location, deadline, context, on_running
        ):
            running = self._submit(document, hook, deadline, context, on_running)
        else:
            self.log.info("Adopted run %s on %s", running.run_id, location)
        self._watch(location, str(running.run_id), context)
        return running

    def _watch(self, location: str, run_id: str, context: Context) -> None:
        """Make a run the one that ``on_kill`` asks to end."""
        checkpoint = CheckpointHook(location, self.storage_conn_id)
        # Opened now: a connection cannot be looked up in a signal handler.
        _ = checkpoint.checkpoint
        self._watched = QueryOfTask(
            self.on_kill_action, checkpoint, run_id, TaskIdentity.of(context["ti"]), self.log
        )

    def _waiting(self, deadline: float | None) -> dict[str, Any]:
        """Return the arguments of a trigger."""
        return {
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval,
            "deadline": deadline,
        }

    def _watching(self, context: Context, run_id: str, deadline: float | None) -> dict[str, Any]:
        """Return the arguments of a trigger that stays with a run."""
        submissions = TaskMemory(context).recall("submissions") or [{}]
        own = submissions[-1] if submissions[-1].get("run_id") == run_id else {}
        return {
            **self._waiting(deadline),
            "run_id": run_id,
            "on_kill_action": self.on_kill_action,
            "log_path": own.get("log"),
            "log_position": own.get("log_position", 0),
        }

    def _wait(self, trigger: CheckpointTrigger, method: str = "execute_complete") -> Event:
        """Wait here, or defer to a method of this operator."""
        return wait_or_defer(self, trigger, method) if self.deferrable else trigger.wait()

    def _with_log(
        self, error: QueryEndedError, context: Context, run_id: str | None = None
    ) -> QueryEndedError:
        """Add the end of the log of what this task has started, if it is on this machine.

        :param run_id: the run that the error is about; another one's log would mislead.
        """
        started = (TaskMemory(context).recall("submissions") or [{}])[-1]
        other = run_id is not None and started.get("run_id") not in (None, run_id)
        output = "" if other or "log" not in started else tail(Path(started["log"]))
        return QueryEndedError(f"{error}\nThe end of its log:\n{output}") if output else error

    def _deadline(self) -> float:
        return time.time() + seconds(self.timeout)

    # -- starting ---------------------------------------------------------------------------------

    def _makes_room(
        self,
        running: CheckpointStatus,
        hook: ContinuousQueryHook,
        location: str,
        deadline: float,
        context: Context,
        on_running: OnRunning,
    ) -> bool:
        """Tell whether the running query gives way, and wait until it has; False adopts it."""
        own = self._is_own(running, context)
        draining = running.state is QueryState.DRAINING
        if on_running == "fail" and not own:
            raise AirflowFailException(
                f"Run {running.run_id} is {running.state.value} on {location} already "
                f"(process {running.pid} on {running.host}). Drain or stop it first, or choose "
                "on_running='adopt' or 'replace'."
            )
        if not draining and (own or on_running == "adopt"):
            return False
        if not draining:
            hook.drain(location, by=asker(context), run_id=running.run_id)
        ended = QueryEndedTrigger(location, str(running.run_id), **self._waiting(deadline))
        expect(ended.wait(), "ended")
        return True

    def _is_own(self, status: CheckpointStatus, context: Context) -> bool:
        """Tell whether this task, in whichever attempt, has started this run."""
        records = TaskMemory(context).recall("submissions") or []
        return any(is_run_of(Handle.read(record), status) for record in records)

    def _submit(
        self,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        deadline: float,
        context: Context,
        on_running: OnRunning,
    ) -> CheckpointStatus:
        submitted = self._submitted(document, hook, context, on_running)
        self._watched = StartOfTask(
            self.on_kill_action, submitted, TaskIdentity.of(context["ti"]), self.log
        )
        memory = TaskMemory(context)
        # All of them: one that was killed early may have started a run that appears only now.
        earlier = (memory.recall("submissions") or [])[-_SUBMISSIONS_MAX:]
        memory.remember("submissions", [*earlier, submitted.handle.to_dict()])
        try:
            status = hook.wait_until_started(submitted, max(1.0, deadline - time.time()))
            memory.remember("submissions", [*earlier, submitted.handle.to_dict()])
            return status
        except QueryStartError:
            # Two tasks may start the same query at once: one of them gets the lease.
            winner = hook.find(str(document["checkpoint_location"]))
            if winner is None or winner.state is QueryState.DRAINING:
                raise
            if on_running != "adopt" and not self._is_own(winner, context):
                raise
            self.log.info("Adopted run %s, which was faster", winner.run_id)
            return winner

    def _submitted(
        self,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        context: Context,
        on_running: OnRunning,
    ) -> SubmittedQuery:
        """Submit the query, or find that this is done already: by an earlier attempt, whose worker
        may have died before it could remember, or by somebody else."""
        own = str(TaskIdentity.of(context["ti"]))
        submitted = hook.submit(document, own)
        handle = submitted.handle
        if handle.by == own or on_running == "adopt":
            return submitted
        if on_running == "fail":
            raise AirflowFailException(
                f"The query of {submitted.checkpoint_location} was submitted by {handle.by} "
                f"({handle.name}), and may start at any time. Wait for it or end it first, or "
                "choose on_running='adopt' or 'replace'."
            )
        if not submitted.end():
            raise submitted.start_error(f"was submitted by {handle.by}, and could not be ended")
        return hook.submit(document, own)


def result(context: Context, location: str, event: Event) -> dict[str, Any]:
    """Return where a query is, as the operators return it; their asset events tell the same."""
    found = {
        "query_id": event["query_id"],
        "run_id": event["run_id"],
        "checkpoint_location": location,
        "epoch": event["epoch"],
    }
    emit(context, **found)
    return found


def asker(context: Context) -> str:
    """Name this task, for the log of a query that it asks to end."""
    return f"Airflow task {context['ti'].dag_id}.{context['ti'].task_id}, {context['run_id']}"
