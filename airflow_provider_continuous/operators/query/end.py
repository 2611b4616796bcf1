"""Drain a query, or stop it at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.connections.location import of_connection
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.errors import QueryEndedError, final_errors
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query.asking import QueryAskingOperator
from airflow_provider_continuous.operators.query.this_task import asker, result, users
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.tasks.arguments import check_found, flag, given
from airflow_provider_continuous.triggers.base import status_event
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import refuse_untold
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context


class EndContinuousQueryOperator(QueryAskingOperator):
    """Asks a query to end and waits until it has; or leaves it to others who use it.

    DAG runs that start or adopt a query use it until they end it, or are over. If others still do:

    - a task whose own DAG run has used it leaves it running, and succeeds: the last one out ends
      it. It returns besides ``left_to``, who that is;
    - a task whose DAG run has not is refused.

    A submission that may still come to run, on a full cluster for example, is ended: its process,
    or the driver that waits there.

    All parameters of
    :class:`~airflow_provider_continuous.operators.query.asking.QueryAskingOperator`, and

    :param run_id: the run of the query that is meant, ``{{ ti.xcom_pull('start')['run_id'] }}`` for
        example (templated). Another one is left alone. None: whichever runs.
    :param force: end it whoever uses it.
    :param continuous_conn_id: the connection of type ``continuous`` that leads to the cluster of a
        submission, and in whose checkpoint root a name alone is looked for (templated).
    """

    template_fields: Sequence[str] = (
        *QueryAskingOperator.template_fields,
        "run_id",
        "continuous_conn_id",
    )
    _ask: Literal["drain", "stop"]

    def __init__(
        self,
        *,
        run_id: str | None = None,
        force: bool = False,
        continuous_conn_id: str = ContinuousQueryHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id
        self._is_of_run = run_id is not None
        self.force = flag(f"{self.task_id}: force", force)
        self.continuous_conn_id = continuous_conn_id
        self._said |= given(continuous_conn_id=continuous_conn_id)

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, unless the query has ended already or is used by others, and wait."""
        with final_errors():
            check_found(self, self._said)
            location = of_connection(str(self.checkpoint_location), self.continuous_conn_id)
            self._check_run_id()
            hook = ContinuousQueryHook(self.continuous_conn_id, self.storage_conn_id)
            status = hook.status(location)
            submitted = None if status.state.is_active else hook.on_its_way(location)
            if submitted is None:
                refuse_untold(location, status.state)
            found = {**status_event("ended", status), "checkpoint_location": location}
            if self.run_id is not None and self.run_id != status.run_id:
                return self._of_another_run(context, found)
            # A standby takes over from a run that is lost, unless that was asked to end.
            is_awaited = status.state is QueryState.LOST and hook.is_followed(location)
            may_go_on = hook.may_go_on(location, status)
            is_on = is_awaited or (may_go_on and not hook.is_ending(location, status))
            others = self._others(context, location, is_on or submitted is not None)
            if others:
                self.log.info("Left running: it is used by %s", "; ".join(others))
                left = result(context, location, found)
                return {**left, "state": status.state.value, "left_to": list(others)}
            if submitted is not None:
                self._take_back(submitted)
                status = hook.status(location)  # it may have come to run meanwhile
                if status.state is QueryState.UNKNOWN:
                    return {**result(context, location, found), "state": status.state.value}
                may_go_on = hook.may_go_on(location, status)
            ask = hook.drain if self._ask == "drain" else hook.stop
            if may_go_on or is_awaited:
                ask(location, by=asker(context), run_id=status.run_id)
            if is_awaited:
                now = hook.status(location)
                if now.state.is_active and now.run_id != status.run_id:  # the standby was faster
                    ask(location, by=asker(context), run_id=now.run_id)
                    status = now
            trigger = QueryEndedTrigger(location, str(status.run_id), **self._waiting())
        return self.execute_complete(context, self._await(trigger))

    def _check_run_id(self) -> None:
        """:raises ConfigError: a run was meant, and its template has found none."""
        if self._is_of_run and str(self.run_id or "None").strip() in ("", "None"):
            raise ConfigError(
                f"run_id is {self.run_id!r}, and no run: nothing was asked to end.",
                hint="See what the task has returned that the template asks; without run_id, "
                "whichever run there is ends.",
            )

    def _take_back(self, submitted: SubmittedQuery) -> None:
        """End a submission.

        :raises QueryStartError: it cannot be told, or not be ended; a retry tries again.
        """
        name = submitted.handle.name
        if not submitted.end():
            raise QueryStartError(
                f"Submission {name} of {submitted.checkpoint_location}, by "
                f"{submitted.handle.by or 'somebody'}, may still come to run, and could not be "
                f"ended: {submitted.look().detail}."
            )
        self.log.info("Ended submission %s, which had no run yet", name)

    def _others(self, context: Context, location: str, is_on: bool) -> Sequence[str]:
        """Return those to whom the query is left.

        :param is_on: False: it has ended, or ends already.
        :raises AirflowFailException: this DAG run has no part in it.
        """
        usage = users(context, location, self.storage_conn_id)
        if self.force or not is_on:
            usage.leave()
            return ()
        own, others = usage.leave_to_others()
        if others and not own:
            raise AirflowFailException(
                f"The query of {location} is used by {'; '.join(others)}. Wait for the end of that "
                f"DAG run, or {self._ask} the query with force=True."
            )
        return others

    def _of_another_run(self, context: Context, found: Event) -> dict[str, Any]:
        """The run that was meant is over."""
        self.log.info("Run %s is over, and run %s is left alone", self.run_id, found["run_id"])
        location = found["checkpoint_location"]
        return {**result(context, location, found), "state": found["state"]}

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query has ended, or fail as the wait tells."""
        expect(event, "ended")
        return {**result(context, event["checkpoint_location"], event), "state": event["state"]}


class DrainContinuousQueryOperator(EndContinuousQueryOperator):
    """Lets a query finish its open epochs, and ends it.

    Everything read so far is committed. Fails when the query has ended by an error instead, or
    was lost: then it was not drained. Returns ``{query_id, run_id, checkpoint_location, epoch,
    state}``; ``epoch`` is the last committed one. Killing this task does not take the request
    back.

    All parameters of :class:`EndContinuousQueryOperator`.
    """

    _ask = "drain"

    def _of_another_run(self, context: Context, found: Event) -> dict[str, Any]:
        raise QueryEndedError(
            f"Run {self.run_id} was not drained by this task: it was over before, and run "
            f"{found['run_id']} of {found['checkpoint_location']} is left alone."
        )

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query has ended, or fail if it has not drained."""
        ended = super().execute_complete(context, event)
        if event["state"] != QueryState.STOPPED.value:
            raise QueryEndedError(
                f"The query of {event['checkpoint_location']} was not drained: it is "
                f"{event['state']} at epoch {event['epoch']}: {event['error']}"
            )
        return ended


class StopContinuousQueryOperator(EndContinuousQueryOperator):
    """Ends a query at once; its open epochs are aborted, and read again when it is restarted.

    A query that has ended already, however, is fine. Returns ``{query_id, run_id,
    checkpoint_location, epoch, state}``; ``epoch`` is the last committed one.

    All parameters of :class:`EndContinuousQueryOperator`.
    """

    _ask = "stop"
