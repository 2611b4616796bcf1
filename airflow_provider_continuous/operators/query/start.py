"""Start a query, or adopt the one that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.connections.sinks import sink_to_rewind
from airflow_provider_continuous.errors import (
    QueryEndedError,
    QueryFailedError,
    WaitTimeoutError,
    final_errors,
)
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.query.base import (
    End,
    OnRunning,
    QueryStartingOperator,
    is_last_attempt,
)
from airflow_provider_continuous.operators.query.this_task import result
from airflow_provider_continuous.outcomes import expect, has_failed
from airflow_provider_continuous.tasks.arguments import flag, given, optional_number, whole_number
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.base import CheckpointTrigger, status_event
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryRunningTrigger, StartedEpochTrigger
from engine.checkpoint.checkpoint import CheckpointStatus

if TYPE_CHECKING:
    from airflow.sdk import Context


class StartContinuousQueryOperator(QueryStartingOperator):
    """Starts a query, or adopts the one that already runs on its checkpoint.

    Who runs a query is decided by the lease in its checkpoint, so a retry, a second DAG run and
    a second scheduler all find the same query. Returns ``{query_id, run_id,
    checkpoint_location, epoch}``; ``epoch`` is the last committed one, -1 before the first.

    :param spec: the query's specification, a dict, or the path of its YAML or JSON file, relative
        to the DAG file (templated, and so is what the file says). Secrets in it, such as
        ``{{ conn.kafka.password }}``, reach the query in a file that only its owner can read, and
        nothing else.
    :param query: instead of ``spec``: ``module:function``, a function that takes the
        SparkSession and returns an unstarted ``write_stream(...)`` (templated).
    :param checkpoint_location: the query's checkpoint, unless the specification or the
        connection's checkpoint root says it; a name alone is a folder in that root
        (templated). With ``s3://my_conn@bucket/path`` Airflow and the query open the storage with
        that connection; without one the query uses the credentials of its environment.
    :param query_name: the query's name, unless the specification says it (templated).
    :param on_running: when a run holds the checkpoint already. ``adopt``: this is the query.
        ``fail``: an error. ``replace``: drain it, then start anew. What an earlier attempt of
        this task has started is always adopted, and only the run that ran when this task began is
        replaced, by no retry another one; a query that is draining is awaited and, except with
        ``fail``, started again. ``replace`` needs a task that remembers, of Airflow 3.3.
    :param end: how a query ends that is replaced. ``drain``: the open epochs are committed first;
        ``stop``: they are aborted, and read again.
    :param from_epoch: with ``on_running="replace"``: the last epoch that stays; the query is
        rewound to its end before it starts, once (templated). The sink takes back the rows of later
        epochs.
    :param accept_repeats: with ``from_epoch``: go on with a sink that cannot take rows back; it
        gets them again. Without it the task fails then, and the query is ended and not started.
    :param on_changed: when what runs already, or is on its way, is of another document: its SQL,
        source, sink or settings, as far as they are no secrets. ``refuse``: an error that lists
        the differences, and nothing is touched. ``adopt``: a warning. ``upgrade``: drain it, and
        start this one. Other settings alone, of memory for example, ``spark_submit`` and
        ``environment``, are only warned of, except with ``upgrade``. See
        :mod:`airflow_provider_continuous.reconcile`.
    :param wait_for: ``running``, or the epoch to wait for until it has committed (templated).
    :param timeout: how long to wait for all of this, a timedelta or seconds.
    :param continuous_conn_id: the connection of type ``continuous`` (templated).
    :param storage_conn_id: the Airflow connection that opens the checkpoint's storage
        (templated).
    :param source_connection: the Airflow connection of the specification's source, instead of its
        ``source.connection`` (templated).
    :param sink_connection: the same of its sink (templated).
    :param connections: for a query that is a function: Airflow connections, and the format of the
        connector that is to use each, ``{"kafka_main": "kafka"}`` (templated). The function gets
        their options by ``engine.connection_options("kafka_main")``.
    :param environment: environment variables of this query, over those of the connection
        (templated).
    :param secrets: environment variables of this query whose values are in connections, such as
        ``{"KAFKA_PASSWORD": "kafka_default.password"}``, over those of the connection.
    :param spark_submit: how large the application is and what goes along with it, over what the
        connection says (templated): ``{"executor_memory": "4g", "num_executors": 8}``, see
        :class:`airflow_provider_continuous.deploy.options.SubmitOptions`.
    :param poll_interval: seconds between two looks at the checkpoint.
    :param deferrable: once the query has started, and after a few seconds, wait in the triggerer,
        without a worker slot; the default unless the environment has
        ``AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE=False``. In ``airflow.cfg`` Airflow writes that by
        itself, so there it says nothing.
    :param on_kill_action: what to ask of the query when somebody marks this task failed or
        successful, or deletes it, while it waits; and when the task has started it, waits in vain
        for ``wait_for``, and no retry is left: ``drain``, ``stop`` or ``detach`` (nothing). A
        cleared task and a worker that shuts down never end a query.
    :param retries: Airflow's own: a query that has failed is started again by each retry.
    """

    template_fields: Sequence[str] = (
        *QueryStartingOperator.template_fields,
        "wait_for",
        "from_epoch",
    )

    def __init__(
        self,
        *,
        wait_for: int | str = "running",
        on_running: OnRunning = "adopt",
        end: End = "drain",
        from_epoch: int | str | None = None,
        accept_repeats: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_running not in get_args(OnRunning):
            raise ValueError(
                f"{self.task_id}: on_running is {on_running!r}; it is adopt, fail or replace."
            )
        if end not in get_args(End):
            raise ValueError(f"{self.task_id}: end is {end!r}; it is drain or stop.")
        if on_running != "replace" and (end != "drain" or from_epoch is not None):
            raise ValueError(f"{self.task_id}: end and from_epoch need on_running='replace'.")
        if accept_repeats and from_epoch is None:
            raise ValueError(f"{self.task_id}: accept_repeats needs from_epoch.")
        self.wait_for = wait_for
        self.on_running = on_running
        self.end = end
        self.from_epoch = from_epoch
        self._given = given(from_epoch=from_epoch)
        self.accept_repeats = flag(f"{self.task_id}: accept_repeats", accept_repeats)

    def execute(self, context: Context) -> dict[str, Any]:
        """Start or adopt the query, and wait for what ``wait_for`` says."""
        with final_errors():
            if self.on_running == "replace":  # a retry would replace its own run
                TaskMemory(context).must_last("A restart")
            deadline, epoch, hook = self._deadline(), self._epoch(), self._query_hook()
            document = self._document(hook)
            location = str(document["checkpoint_location"])
            if self.on_running == "replace":
                self._rewind_epoch()  # which may be none: looked at while the query still runs
                self._check_successor(hook, document, hook.status(location))
            run = self._bring_up(document, hook, context, deadline, self.on_running)
            self._check_rewound(context, location, run)
            trigger = self._started(context, location, run, deadline, epoch)
        return self.execute_complete(context, self._wait(context, trigger))

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query is, or fail as the wait tells."""
        TaskMemory(context).take_over(event)
        location = event["checkpoint_location"]
        try:
            expect(event, "running" if self.wait_for == "running" else "committed")
        except QueryEndedError as error:
            if not has_failed(event) or is_last_attempt(context):
                self._leave(context, location)
            if has_failed(event):
                raise self._with_log(QueryFailedError(str(error)), context) from None
            raise self._with_log(error, context) from None
        except WaitTimeoutError as error:
            with final_errors():
                done = self._end_what_was_started(context, location)
            raise WaitTimeoutError(f"{error} {done}".strip()) from None
        with final_errors():
            status = CheckpointHook(location, self.storage_conn_id).status()
        return result(context, location, status_event("running", status))

    def _started(
        self,
        context: Context,
        location: str,
        run: CheckpointStatus,
        deadline: float,
        epoch: int | None,
    ) -> CheckpointTrigger:
        waiting = self._watching(context, location, str(run.run_id), deadline)
        if epoch is None:
            return QueryRunningTrigger(location, **waiting)
        return StartedEpochTrigger(location, epoch, **waiting)

    def _epoch(self) -> int | None:
        return None if self.wait_for == "running" else whole_number("wait_for", self.wait_for)

    def _before_start(self, document: Mapping[str, Any], context: Context) -> None:
        to_epoch, memory = self._rewind_epoch(), TaskMemory(context)
        if to_epoch is None or memory.recall("rewound"):
            return
        location = str(document["checkpoint_location"])
        checkpoint = CheckpointHook(location, self.storage_conn_id).checkpoint
        report = checkpoint.rewind(
            to_epoch,
            sink=sink_to_rewind(checkpoint, document),
            accept_repeats=self.accept_repeats,
        )
        memory.remember("rewound", report.to_dict())
        self.log.info("Rewound from epoch %d to %d", report.from_epoch, report.to_epoch)

    def _check_rewound(self, context: Context, location: str, run: CheckpointStatus) -> None:
        """:raises AirflowFailException: others have started the query before it was rewound."""
        to_epoch = self._rewind_epoch()
        if to_epoch is None or TaskMemory(context).recall("rewound"):
            return
        self._leave(context, location)
        raise AirflowFailException(
            f"Run {run.run_id}, which somebody else has started meanwhile, holds {location}: it "
            f"was not rewound to epoch {to_epoch}. Clear this task to restart that run."
        )

    def _rewind_epoch(self) -> int | None:
        # A template that has found nothing may be None by now: that is no start from where it was.
        return optional_number("from_epoch", self.from_epoch, self._given)
