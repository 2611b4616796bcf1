"""What all operators have in common that start a query."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from airflow.sdk import BaseOperator, get_current_context

from airflow_provider_continuous.assets.events import emit
from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deferral import by_default, wait_or_defer
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.driver_log import tail
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery, is_run_of
from airflow_provider_continuous.errors import QueryEndedError, QueryFailedError
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.links.query import QUERY_LINKS
from airflow_provider_continuous.openlineage.operators import QueryLineage
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.reconcile import (
    Decision,
    OnChanged,
    Verdict,
    check_on_changed,
)
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
from airflow_provider_continuous.tasks.users import Users
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.query.spec import read_text

if TYPE_CHECKING:
    from airflow.sdk import Context

OnRunning = Literal["adopt", "fail", "replace"]
_SUBMISSIONS_MAX = 8
_Error = TypeVar("_Error", QueryEndedError, QueryFailedError)
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
        self.deferrable = by_default() if deferrable is None else deferrable
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
        readable = self._readable(self.spec if spec is None else spec)
        return hook.specification(
            readable,
            text=self._rendered(readable) if isinstance(readable, Path) else None,
            query=self.query if spec is None else None,
            **self._overrides(),
        )

    def _rendered(self, path: Path) -> str | None:
        """Return what a specification's file says, its templates rendered."""
        text = read_text(path)
        if not any(mark in text for mark in ("{{", "{%", "{#")):
            return text
        found = self.render_template(text, get_current_context(), self.get_template_env())
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
        users(context, location, self.storage_conn_id).enter()
        running = hook.find(location)
        if running is None or self._makes_room(
            running, hook, document, deadline, context, on_running
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

    def _watching(
        self, context: Context, location: str, run_id: str, deadline: float | None
    ) -> dict[str, Any]:
        """Return the arguments of a trigger that stays with a run."""
        submissions = TaskMemory(context).recall("submissions") or [{}]
        own = submissions[-1] if submissions[-1].get("run_id") == run_id else {}
        log, position = own.get("log"), own.get("log_position", 0)
        if log is None:  # who has adopted it shows what it writes from now on
            path = self._query_hook().log_of_run(location, run_id)
            if path is not None:
                log, position = str(path), path.stat().st_size
        return {
            **self._waiting(deadline),
            "run_id": run_id,
            "on_kill_action": self.on_kill_action,
            "log_path": log,
            "log_position": position,
        }

    def _wait(self, trigger: CheckpointTrigger, method: str = "execute_complete") -> Event:
        """Wait here, or defer to a method of this operator."""
        return wait_or_defer(self, trigger, method) if self.deferrable else trigger.wait()

    def _with_log(self, error: _Error, context: Context, run_id: str | None = None) -> _Error:
        """Add the end of the log of what this task has started, if it is on this machine.

        :param run_id: the run that the error is about; another one's log would mislead.
        """
        started = (TaskMemory(context).recall("submissions") or [{}])[-1]
        other = run_id is not None and started.get("run_id") not in (None, run_id)
        output = "" if other or "log" not in started else tail(Path(started["log"]))
        return type(error)(f"{error}\nThe end of its log:\n{output}") if output else error

    def _end_what_was_started(self, context: Context, location: str) -> str:
        """The start has failed though its run is there: end the run as ``on_kill_action`` says,
        unless a retry adopts it, or it is somebody else's.

        :returns: what was done, for the error.
        """
        hook, task_instance = self._query_hook(), context["ti"]
        status = hook.status(location)
        if not status.state.is_active or not self._is_own(status, context):
            return ""
        run = f"Run {status.run_id}, which this task has started,"
        if task_instance.try_number <= task_instance.max_tries:
            return f"{run} goes on: a retry adopts it."
        if self.on_kill_action == "detach":
            return f"{run} goes on, as on_kill_action is 'detach'."
        others = users(context, location, self.storage_conn_id).others()
        if others:
            return f"{run} goes on, as it is used by {'; '.join(others)}."
        ask = hook.drain if self.on_kill_action == "drain" else hook.stop
        ask(location, by=asker(context), run_id=status.run_id)
        return f"{run} was asked to {self.on_kill_action}."

    def _deadline(self) -> float:
        return time.time() + seconds(self.timeout)

    # -- starting ---------------------------------------------------------------------------------

    def _makes_room(
        self,
        running: CheckpointStatus,
        hook: ContinuousQueryHook,
        document: Mapping[str, Any],
        deadline: float,
        context: Context,
        on_running: OnRunning,
    ) -> bool:
        """Tell whether the running query gives way, and wait until it has; False adopts it."""
        location = str(document["checkpoint_location"])
        own = self._is_own(running, context)
        draining = hook.is_ending(location, running)
        if on_running == "fail" and not own:
            raise AirflowFailException(
                f"Run {running.run_id} is {running.state.value} on {location} already "
                f"(process {running.pid} on {running.host}). Drain or stop it first, or choose "
                "on_running='adopt' or 'replace'."
            )
        if not draining and (own or on_running == "adopt"):
            what = f"run {running.run_id}"
            if not self._gives_way(hook.reconcile(document, running, self.on_changed), what):
                return False
        if not draining:
            hook.drain(location, by=asker(context), run_id=running.run_id)
        ended = QueryEndedTrigger(location, str(running.run_id), **self._waiting(deadline))
        expect(ended.wait(), "ended")
        return True

    def _gives_way(self, verdict: Verdict, what: str) -> bool:
        """Tell whether what there is has to give way to what is wanted, and say what differs.

        :raises AirflowFailException: it is another query, and must not be touched.
        """
        if verdict.decision is Decision.REFUSE:
            raise AirflowFailException(
                f"{what[0].upper()}{what[1:]} is not the query of this task: {verdict.listed}. "
                "It was left alone. "
                + (
                    "UpgradeContinuousQueryOperator or on_changed='upgrade' replaces it, "
                    "on_changed='adopt' takes it as it is."
                    if all(change.is_safe for change in verdict.changes)
                    else "Another source or sink needs a checkpoint of its own; the option "
                    "allowChangedQuery says that it may go on from this one."
                )
            )
        if not verdict.is_known:
            self.log.warning(
                "Nobody has noted the document of %s: its source and sink were compared, no more",
                what,
            )
        if verdict.decision is Decision.WARN:
            self.log.warning(
                "Kept %s, which differs until its next start: %s", what, verdict.listed
            )
        if verdict.decision is Decision.UPGRADE:
            self.log.info("Replacing %s: %s", what, verdict.listed)
        return verdict.decision is Decision.UPGRADE

    def _check_successor(
        self, hook: ContinuousQueryHook, document: Mapping[str, Any], status: CheckpointStatus
    ) -> None:
        """Refuse what the engine would refuse, while the query that it is to follow still runs.

        :raises AirflowFailException: it reads or writes something else.
        """
        if status.run_id is not None:
            self._gives_way(hook.reconcile(document, status, "upgrade"), f"run {status.run_id}")

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
        memory.remember("submissions", [*earlier, _without_document(submitted.handle)])
        try:
            status = hook.wait_until_started(submitted, max(1.0, deadline - time.time()))
            memory.remember("submissions", [*earlier, _without_document(submitted.handle)])
            return status
        except QueryStartError:
            # Two tasks may start the same query at once: one of them gets the lease.
            winner = hook.find(str(document["checkpoint_location"]))
            if winner is None or winner.state is QueryState.DRAINING:
                raise
            if on_running != "adopt" and not self._is_own(winner, context):
                raise
            self.log.info("Run %s was faster", winner.run_id)
            return self._bring_up(document, hook, context, deadline, on_running)

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
            verdict = hook.reconcile(document, submitted, self.on_changed)
            if not self._gives_way(verdict, f"submission {handle.name}"):
                return submitted
        elif on_running == "fail":
            raise AirflowFailException(
                f"The query of {submitted.checkpoint_location} was submitted by {handle.by} "
                f"({handle.name}), and may start at any time. Wait for it or end it first, or "
                "choose on_running='adopt' or 'replace'."
            )
        if not submitted.end():
            raise submitted.start_error(f"was submitted by {handle.by}, and could not be ended")
        return hook.submit(document, own)


def _without_document(handle: Handle) -> dict[str, Any]:
    """As JSON; what was submitted is noted in the checkpoint."""
    return replace(handle, document=None).to_dict()


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


def users(context: Context, location: str, storage_conn_id: str | None) -> Users:
    """Return who uses a query, as the DAG run of this task sees it."""
    storage = CheckpointHook(location, storage_conn_id).checkpoint.storage
    return Users(storage, context["ti"].dag_id, context["ti"].run_id)


def asker(context: Context) -> str:
    """Name this task, for the log of a query that it asks to end."""
    return f"Airflow task {context['ti'].dag_id}.{context['ti'].task_id}, {context['run_id']}"
