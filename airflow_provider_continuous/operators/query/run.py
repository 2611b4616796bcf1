"""Stay with a query: start or adopt it, and start it again when it dies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.errors import QueryEndedError, QueryFailedError, final_errors
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query.base import QueryStartingOperator, is_last_attempt
from airflow_provider_continuous.operators.query.standby import end_standby, keep_standby
from airflow_provider_continuous.operators.query.this_task import asker, result, users
from airflow_provider_continuous.outcomes import expect, has_failed
from airflow_provider_continuous.reconcile import OnChanged
from airflow_provider_continuous.tasks.arguments import (
    duration,
    flag,
    given,
    instant,
    optional_duration,
    optional_number,
)
from airflow_provider_continuous.tasks.killing import KillAction, TaskIdentity
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.tasks.restarts import ProcessRestarts
from airflow_provider_continuous.triggers.base import status_event
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from airflow_provider_continuous.triggers.supervise import QuerySupervisionTrigger
from engine.base.text_tables import count
from engine.checkpoint.query_state import QueryState

if TYPE_CHECKING:
    from airflow.sdk import Context

AtEnd = Literal["drain", "stop", "detach"]


class RunContinuousQueryOperator(QueryStartingOperator):
    """Starts or adopts a query, and stays with it for as long as this task lives.

    It stays in the triggerer, without a worker slot. Made for ``schedule="@continuous"``. The end
    is a success: when ``run_for``, ``until`` or ``until_epoch`` is reached, or when somebody has
    drained or stopped the query and nobody has started it again within ``takeover_grace``. Without
    any of them it stays for ever. A run that another task has started meanwhile, of an upgrade for
    example, is adopted; if its document is another one, with a warning, and ``on_changed="refuse"``
    does not start the older one again when it dies.

    The engine restarts a query in place by itself. When its process is gone, or has given up, the
    task starts it again, at most ``restarts`` times; then it fails with the query's own error, and
    each of Airflow's ``retries`` starts it once more. A restart is a start like any other: the
    lease sees to it that there is one query.

    Returns ``{query_id, run_id, checkpoint_location, epoch, state, reason, restarts}``; ``reason``
    is ``time``, ``epoch`` or ``ended``.

    All parameters but ``wait_for``, ``on_running`` and what belongs to that of
    :class:`~airflow_provider_continuous.operators.query.start.StartContinuousQueryOperator`, and

    :param run_for: a timedelta or seconds, counted from the first attempt of this task.
    :param until: a datetime with a time zone, or its ISO 8601 text (templated). With ``run_for``,
        whichever comes first.
    :param until_epoch: an epoch, until it has committed (templated).
    :param at_end: what to do with the query then: ``drain`` it, ``stop`` it, or ``detach``.
    :param restarts: how often a dead query is started again; None: always.
    :param restart_delay: the pause before that, a timedelta or seconds; doubles with each restart.
    :param restart_delay_max: the longest pause, a timedelta or seconds.
    :param restart_reset_after: a query that has run for so many seconds since its last restart
        starts counting anew.
    :param takeover_grace: for how many seconds a query that somebody has drained or stopped may
        be without a run before that is the end: longer than another task needs to upgrade or
        restart it.
    :param standby: keep a second driver of the query ready, its session warm and its plan made,
        which takes over when the first one dies: within a second or two on the same machine, when
        the lease is over on another one. The task goes on with it, and starts the next standby.
        Both end when the query is drained or stopped. Not with drivers on a cluster.
    :param timeout: how long a start, that of a standby, too, and the drain or stop at the end, may
        take.
    :param on_kill_action: what to ask of the query when somebody marks this task failed or
        successful, or deletes it: ``drain``, ``stop`` or ``detach`` (nothing). A cleared task and
        a worker that shuts down never end a query: the next attempt adopts it.
    """

    template_fields: Sequence[str] = (
        *QueryStartingOperator.template_fields,
        "until",
        "until_epoch",
    )

    def __init__(
        self,
        *,
        run_for: timedelta | float | None = None,
        until: datetime | str | None = None,
        until_epoch: int | str | None = None,
        at_end: AtEnd = "drain",
        restarts: int | None = 3,
        restart_delay: timedelta | float = 5.0,
        restart_delay_max: timedelta | float = 300.0,
        restart_reset_after: timedelta | float = 3600.0,
        takeover_grace: timedelta | float = 60.0,
        standby: bool = False,
        on_kill_action: KillAction = "drain",
        **kwargs: Any,
    ) -> None:
        super().__init__(on_kill_action=on_kill_action, **kwargs)
        if at_end not in get_args(AtEnd):
            raise ValueError(f"{self.task_id}: at_end is {at_end!r}; it is drain, stop or detach.")
        self.run_for = optional_duration(f"{self.task_id}: run_for", run_for)
        self.until = until
        self.until_epoch = until_epoch
        self._given = given(until=until, until_epoch=until_epoch)
        self.at_end = at_end
        if restarts is not None and (type(restarts) is not int or restarts < 0):
            raise ValueError(
                f"{self.task_id}: restarts is {restarts!r}; it is a whole number, or None."
            )
        self.restarts = restarts
        self.restart_delay = duration(f"{self.task_id}: restart_delay", restart_delay)
        self.restart_delay_max = duration(f"{self.task_id}: restart_delay_max", restart_delay_max)
        self.restart_reset_after = duration(
            f"{self.task_id}: restart_reset_after", restart_reset_after
        )
        self.takeover_grace = duration(f"{self.task_id}: takeover_grace", takeover_grace)
        self.standby = flag(f"{self.task_id}: standby", standby)

    def execute(self, context: Context) -> dict[str, Any]:
        """Start or adopt the query, and stay with it."""
        with final_errors():
            self._end_at(context)
            self._until_epoch()  # what is wrong fails before anything starts
            if self.standby:
                self._query_hook().check_standby()
            reason = TaskMemory(context).recall("reason")
            if reason is not None:  # an earlier attempt has come to the end already
                location = str(self._document(self._query_hook())["checkpoint_location"])
                return self._finish(context, location, reason)
            run_id, location = self._start(context)
        return self.supervised(context, self._stay_with(context, location, run_id))

    def supervised(self, context: Context, event: Event) -> dict[str, Any]:
        """Go on after a wait: stay with the query, or come to the end."""
        TaskMemory(context).take_over(event)
        location, stopped = event["checkpoint_location"], QueryState.STOPPED.value
        while event["outcome"] in ("replaced", "ended", "alone") and event["state"] != stopped:
            run_id = self._next_run(context, location, event)
            # Of the same run: what was shown of its log is not shown again.
            shown = event["log_position"] if event["outcome"] == "alone" else None
            event = self._stay_with(context, location, run_id, shown)
        if event["outcome"] == "ended":
            self.log.info("The query was asked to end, and has ended")
            self._leave(context, location)
            return self._result(context, location, event, "ended")
        if event["outcome"] == "timeout":
            return self._finish(context, location, "time")
        expect(event, "reached")
        return self._finish(context, location, "epoch")

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query has ended, once it was drained or stopped at the end."""
        TaskMemory(context).take_over(event)
        expect(event, "ended")
        if has_failed(event):
            raise QueryEndedError(
                f"The query of {event['checkpoint_location']} came to its end, and is "
                f"{event['state']} at epoch {event['epoch']}: {event['error']}"
            )
        reason = TaskMemory(context).recall("reason")
        return self._result(context, event["checkpoint_location"], event, reason)

    def _start(self, context: Context) -> tuple[str, str]:
        hook = self._query_hook()
        document = self._document(hook)
        run = self._bring_up(document, hook, context, self._deadline())
        return str(run.run_id), str(document["checkpoint_location"])

    def _stay_with(
        self, context: Context, location: str, run_id: str, shown: int | None = None
    ) -> Event:
        """:param shown: how far the driver's log was shown by an earlier wait; None: not yet."""
        with final_errors():
            self._watch(location, run_id, context)
            standby_due = self._stand_by(context)  # notes which submission has become the run
            watching = self._watching(context, location, run_id, self._end_at(context))
            if shown is not None:
                watching["log_position"] = shown
            trigger = QuerySupervisionTrigger(
                location,
                until_epoch=self._until_epoch(),
                restart_delay_s=self._restarts(context).next_delay_s(),
                takeover_grace_s=self.takeover_grace,
                standby_due=standby_due,
                **watching,
            )
        return self._wait(context, trigger, "supervised")

    def _stand_by(self, context: Context) -> float | None:
        """Keep a standby; return from when on it is missed, None: there is to be none."""
        if not self.standby:
            return None
        hook, by = self._query_hook(), str(TaskIdentity.of(context["ti"]))
        return keep_standby(hook, self._document(hook), by, self.timeout, self.log)

    def _next_run(self, context: Context, location: str, event: Event) -> str:
        """Return the run that has taken over, or that is started for one that has died."""
        if event["outcome"] == "alone":
            self.log.warning("No standby of run %s waits", event["run_id"])
            return str(event["run_id"])
        with final_errors():
            is_there = event["outcome"] == "replaced"
            # Else, too: a worker may come long after the event.
            run_id = event["run_id"] if is_there else self._running(location)
            if run_id is not None:
                self.log.info("Adopted run %s, which has taken over", run_id)
                self._compare_with_last(location, "adopt")
                return str(run_id)
        why = event["error"] or "its process is gone"
        died = f"The query of {location} is {event['state']} at epoch {event['epoch']}"
        restarts = self._restarts(context)
        if not restarts.grant():
            if is_last_attempt(context):
                self._leave(context, location)
            error = QueryFailedError(
                f"{died}, after {count(restarts.total(), 'restart')} by this task: {why}"
            )
            raise self._with_log(error, context, event["run_id"])
        last = self._with_log(QueryFailedError(f"{died}: {why}"), context, event["run_id"])
        self.log.warning("%s\nStarting it again", last)
        with final_errors():
            if self.on_changed == "refuse":
                try:
                    self._compare_with_last(location, "refuse")
                except AirflowFailException:
                    self._leave(context, location)
                    raise
            return self._start(context)[0]

    def _running(self, location: str) -> str | None:
        running = self._query_hook().find(location)
        return None if running is None else running.run_id

    def _compare_with_last(self, location: str, on_changed: OnChanged) -> None:
        """Compare what this task wants with a run that others may have started meanwhile: they
        may have upgraded the query on purpose, and its next start must not take that back.

        :raises AirflowFailException: it is another query, and ``on_changed`` refuses that.
        """
        hook = self._query_hook()
        status = hook.status(location)
        verdict = hook.reconcile(self._document(hook), status, on_changed)
        self._gives_way(verdict, f"run {status.run_id}")

    def _finish(self, context: Context, location: str, reason: str) -> dict[str, Any]:
        with final_errors():
            hook = ContinuousQueryHook(storage_conn_id=self.storage_conn_id)
            status = hook.status(location)
            self.log.info("Came to the end (%s): %s", reason, self.at_end)
            usage = users(context, location, self.storage_conn_id)
            usage.leave()
            others = () if self.at_end == "detach" else usage.others()
            if others:
                self.log.info("Left running: it is used by %s", "; ".join(others))
            if self.at_end == "detach" or others:
                event = {**status_event("ended", status), "checkpoint_location": location}
                return self._result(context, location, event, reason)
            TaskMemory(context).remember("reason", reason)
            if self.standby:
                end_standby(self._query_hook(), location, self.log)
                status = hook.status(location)  # it may just have taken over
            if hook.may_go_on(location, status):
                ask = hook.drain if self.at_end == "drain" else hook.stop
                ask(location, by=asker(context), run_id=status.run_id)
            trigger = QueryEndedTrigger(
                location, str(status.run_id), **self._waiting(self._deadline())
            )
        return self.execute_complete(context, self._wait(context, trigger))

    def _result(self, context: Context, location: str, event: Event, reason: str) -> dict[str, Any]:
        return {
            **result(context, location, event),
            "state": event["state"],
            "reason": reason,
            "restarts": self._restarts(context).total(),
        }

    def _restarts(self, context: Context) -> ProcessRestarts:
        return ProcessRestarts(
            TaskMemory(context),
            self.restarts,
            self.restart_delay,
            self.restart_delay_max,
            self.restart_reset_after,
        )

    def _until_epoch(self) -> int | None:
        return optional_number("until_epoch", self.until_epoch, self._given)

    def _end_at(self, context: Context) -> float | None:
        """Return when to end, seconds since 1970; the same through retries and restarts."""
        ends = []
        if "until" in self._given:
            ends.append(instant("until", self.until).timestamp())
        if self.run_for is not None:
            memory = TaskMemory(context)
            began = memory.recall("began")
            if began is None:
                began = time.time()
                memory.remember("began", began)
            ends.append(began + self.run_for)
        return min(ends, default=None)
