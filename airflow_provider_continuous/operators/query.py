"""Start, drain and stop a continuous query.

A query is no child of the task that starts it: it runs until it is drained, stopped or fails.
Killing a task, clearing it or shutting a worker down leaves the query running.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_continuous.arguments import seconds, whole_number
from airflow_provider_continuous.deferral import wait_or_defer
from airflow_provider_continuous.errors import QueryEndedError, final_errors
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.launch import tail
from airflow_provider_continuous.links.query import QUERY_LINKS
from airflow_provider_continuous.memory import TaskMemory
from airflow_provider_continuous.openlineage.operators import QueryLineage
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.submission import QueryStartError
from airflow_provider_continuous.triggers.base import CheckpointTrigger, Event, status_event
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.query import QueryEndedTrigger, QueryRunningTrigger
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.errors import ConfigError
from engine.states import QueryState

if TYPE_CHECKING:
    from airflow.sdk import Context

OnRunning = Literal["adopt", "fail", "replace"]


class StartContinuousQueryOperator(QueryLineage, BaseOperator):
    """Starts a query, or adopts the one that already runs on its checkpoint.

    Who runs a query is decided by the lease in its checkpoint, so a retry, a second DAG run and
    a second scheduler all find the same query. Returns ``{query_id, run_id,
    checkpoint_location, epoch}``; ``epoch`` is the last committed one, -1 before the first.

    :param spec: the query's specification, a dict, or the path of its YAML or JSON file, relative
        to the DAG file (templated). Secrets in it, such as ``{{ conn.kafka.password }}``, reach
        the query in a file that only its owner can read, and nothing else.
    :param query: instead of ``spec``: ``module:function``, a function that takes the
        SparkSession and returns an unstarted ``write_stream(...)`` (templated).
    :param checkpoint_location: the query's checkpoint, unless the specification or the
        connection's checkpoint root says it (templated). With ``s3://my_conn@bucket/path``
        Airflow's side opens the storage with that connection; the query itself uses the
        credentials of its environment.
    :param query_name: the query's name, unless the specification says it (templated).
    :param on_running: when a run holds the checkpoint already. ``adopt``: this is the query.
        ``fail``: an error. ``replace``: drain it, then start anew. What an earlier attempt of
        this task has started is always adopted; a query that is draining is awaited and, except
        with ``fail``, started again.
    :param wait_for: ``running``, or the epoch to wait for until it has committed (templated).
    :param timeout: how long to wait for all of this, a timedelta or seconds.
    :param continuous_conn_id: the connection of type ``continuous`` (templated).
    :param storage_conn_id: the Airflow connection that opens the checkpoint's storage
        (templated).
    :param poll_interval: seconds between two looks at the checkpoint.
    :param deferrable: once the query has started, and after a few seconds, wait in the triggerer,
        without a worker slot.
    """

    template_fields: Sequence[str] = (
        "spec",
        "query",
        "checkpoint_location",
        "query_name",
        "wait_for",
        "continuous_conn_id",
        "storage_conn_id",
    )
    template_fields_renderers = {"spec": "json"}  # noqa: RUF012  # Airflow's declaration
    operator_extra_links = QUERY_LINKS
    ui_color = "#e4f4de"

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str | None = None,
        query: str | None = None,
        checkpoint_location: str | None = None,
        query_name: str | None = None,
        on_running: OnRunning = "adopt",
        wait_for: int | str = "running",
        timeout: timedelta | float = 600.0,
        continuous_conn_id: str = ContinuousQueryHook.default_conn_name,
        storage_conn_id: str | None = None,
        poll_interval: float = 1.0,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (spec is None) == (query is None):
            raise ValueError(f"{self.task_id}: give exactly one of spec and query.")
        if on_running not in ("adopt", "fail", "replace"):
            raise ValueError(
                f"{self.task_id}: on_running is {on_running!r}; it is adopt, fail or replace."
            )
        self.spec = spec
        self.query = query
        self.checkpoint_location = checkpoint_location
        self.query_name = query_name
        self.on_running = on_running
        self.wait_for = wait_for
        self.timeout = timeout
        self.continuous_conn_id = continuous_conn_id
        self.storage_conn_id = storage_conn_id
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any]:
        """Start or adopt the query, and wait for what ``wait_for`` says."""
        with final_errors():
            trigger = self._start(context)
        event = wait_or_defer(self, trigger) if self.deferrable else trigger.wait()
        return self.execute_complete(context, event)

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query is, or fail as the wait tells."""
        try:
            expect(event, "running" if self.wait_for == "running" else "committed")
        except QueryEndedError as error:
            submission = TaskMemory(context).recall("submission")
            output = tail(Path(submission["log"])) if submission else ""
            if not output:
                raise
            raise QueryEndedError(f"{error}\nThe end of its log:\n{output}") from None
        location = event["checkpoint_location"]
        with final_errors():
            status = CheckpointHook(location, self.storage_conn_id).status()
        return _result(location, status_event("running", status))

    def _start(self, context: Context) -> CheckpointTrigger:
        deadline = time.time() + seconds(self.timeout)
        epoch = None if self.wait_for == "running" else whole_number("wait_for", self.wait_for)
        hook = ContinuousQueryHook(self.continuous_conn_id, self.storage_conn_id)
        document = hook.specification(
            self._spec(),
            query=self.query,
            name=self.query_name,
            checkpoint_location=self.checkpoint_location,
        )
        location = str(document["checkpoint_location"])
        running = hook.find(location)
        if running is None or self._makes_room(running, hook, location, deadline, context):
            self._submit(document, hook, deadline, context)
        else:
            self.log.info("Adopted run %s on %s", running.run_id, location)
        waiting: dict[str, Any] = {
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval,
            "deadline": deadline,
        }
        if epoch is None:
            return QueryRunningTrigger(location, **waiting)
        return EpochCommittedTrigger(location, epoch, **waiting)

    def _spec(self) -> Mapping[str, Any] | Path:
        if self.spec is None or isinstance(self.spec, Mapping):
            return self.spec or {}
        path = Path(self.spec)
        return path if path.is_absolute() else Path(self.dag.fileloc).parent / path

    def _makes_room(
        self,
        running: CheckpointStatus,
        hook: ContinuousQueryHook,
        location: str,
        deadline: float,
        context: Context,
    ) -> bool:
        """Tell whether the running query gives way, and wait until it has; False adopts it."""
        process = {"host": running.host, "pid": running.pid}
        own = process.items() <= (TaskMemory(context).recall("submission") or {}).items()
        draining = running.state is QueryState.DRAINING
        if self.on_running == "fail" and not own:
            raise AirflowFailException(
                f"Run {running.run_id} is {running.state.value} on {location} already "
                f"(process {running.pid} on {running.host}). Drain or stop it first, or choose "
                "on_running='adopt' or 'replace'."
            )
        if not draining and (own or self.on_running == "adopt"):
            return False
        if not draining:
            hook.drain(location, by=_asker(context), run_id=running.run_id)
        ended = QueryEndedTrigger(
            location,
            str(running.run_id),
            storage_conn_id=self.storage_conn_id,
            poll_interval_s=self.poll_interval,
            deadline=deadline,
        )
        expect(ended.wait(), "ended")
        return True

    def _submit(
        self,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        deadline: float,
        context: Context,
    ) -> None:
        submitted = hook.submit(document)
        submission = {
            "host": socket.gethostname(),
            "pid": submitted.process.pid,
            "log": str(submitted.log_path),
        }
        TaskMemory(context).remember("submission", submission)
        try:
            hook.wait_until_started(submitted, max(1.0, deadline - time.time()))
        except QueryStartError:
            # Two tasks may start the same query at once: one of them gets the lease.
            winner = hook.find(str(document["checkpoint_location"]))
            if winner is None or self.on_running != "adopt":
                raise
            self.log.info("Adopted run %s, which was faster", winner.run_id)


class _EndContinuousQueryOperator(QueryLineage, BaseOperator):
    """Asks a query to end and waits until it has."""

    template_fields: Sequence[str] = ("checkpoint_location", "storage_conn_id")
    operator_extra_links = QUERY_LINKS
    ui_color = "#f4e7de"
    _ask: Literal["drain", "stop"]

    def __init__(
        self,
        *,
        checkpoint_location: str,
        timeout: timedelta | float = 600.0,
        storage_conn_id: str | None = None,
        poll_interval: float = 1.0,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint_location = checkpoint_location
        self.timeout = timeout
        self.storage_conn_id = storage_conn_id
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, unless the query has ended already, and wait."""
        with final_errors():
            hook = ContinuousQueryHook(storage_conn_id=self.storage_conn_id)
            status = hook.status(self.checkpoint_location)
            if status.state is QueryState.UNKNOWN:
                raise ConfigError(
                    f"Nothing tells who runs the query of {self.checkpoint_location}.",
                    hint="Only queries of this engine can be asked to end; check "
                    "checkpoint_location.",
                )
            trigger = QueryEndedTrigger(
                str(self.checkpoint_location),
                str(status.run_id),
                storage_conn_id=self.storage_conn_id,
                poll_interval_s=self.poll_interval,
                deadline=time.time() + seconds(self.timeout),
            )
            if status.state.is_active:
                ask = hook.drain if self._ask == "drain" else hook.stop
                ask(self.checkpoint_location, by=_asker(context), run_id=status.run_id)
        event = wait_or_defer(self, trigger) if self.deferrable else trigger.wait()
        return self.execute_complete(context, event)

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query has ended, or fail as the wait tells."""
        expect(event, "ended")
        return {**_result(event["checkpoint_location"], event), "state": event["state"]}


class DrainContinuousQueryOperator(_EndContinuousQueryOperator):
    """Lets a query finish its open epochs, and ends it.

    Everything read so far is committed. Fails when the query has ended by an error instead, or
    was lost: then it was not drained. Returns ``{query_id, run_id, checkpoint_location, epoch,
    state}``; ``epoch`` is the last committed one. Killing this task does not take the request
    back.

    :param checkpoint_location: the query's checkpoint (templated); with
        ``s3://my_conn@bucket/path`` an Airflow connection opens it.
    :param timeout: how long to wait for the end, a timedelta or seconds.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    :param poll_interval: seconds between two looks at the checkpoint.
    :param deferrable: after a few seconds, wait in the triggerer, without a worker slot.
    """

    _ask = "drain"

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query has ended, or fail if it has not drained."""
        result = super().execute_complete(context, event)
        if event["state"] in (QueryState.FAILED.value, QueryState.LOST.value):
            raise QueryEndedError(
                f"The query of {event['checkpoint_location']} was not drained: it is "
                f"{event['state']} at epoch {event['epoch']}: {event['error']}"
            )
        return result


class StopContinuousQueryOperator(_EndContinuousQueryOperator):
    """Ends a query at once; its open epochs are aborted, and read again when it is restarted.

    A query that has ended already, however, is fine. Returns ``{query_id, run_id,
    checkpoint_location, epoch, state}``; ``epoch`` is the last committed one.

    :param checkpoint_location: the query's checkpoint (templated); with
        ``s3://my_conn@bucket/path`` an Airflow connection opens it.
    :param timeout: how long to wait for the end, a timedelta or seconds.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    :param poll_interval: seconds between two looks at the checkpoint.
    :param deferrable: after a few seconds, wait in the triggerer, without a worker slot.
    """

    _ask = "stop"


def _result(location: str, event: Event) -> dict[str, Any]:
    return {
        "query_id": event["query_id"],
        "run_id": event["run_id"],
        "checkpoint_location": location,
        "epoch": event["epoch"],
    }


def _asker(context: Context) -> str:
    return f"Airflow task {context['ti'].dag_id}.{context['ti'].task_id}, {context['run_id']}"
