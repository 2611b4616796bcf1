"""Drain a query, or stop it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_continuous.errors import QueryEndedError, final_errors
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query.asking import QueryAskingOperator
from airflow_provider_continuous.operators.query.base import asker, result
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context


class EndContinuousQueryOperator(QueryAskingOperator):
    """Asks a query to end and waits until it has."""

    _ask: Literal["drain", "stop"]

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
                str(self.checkpoint_location), str(status.run_id), **self._waiting()
            )
            if status.state.is_active:
                ask = hook.drain if self._ask == "drain" else hook.stop
                ask(self.checkpoint_location, by=asker(context), run_id=status.run_id)
        return self.execute_complete(context, self._await(trigger))

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

    All parameters of
    :class:`~airflow_provider_continuous.operators.query.asking.QueryAskingOperator`.
    """

    _ask = "drain"

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

    All parameters of
    :class:`~airflow_provider_continuous.operators.query.asking.QueryAskingOperator`.
    """

    _ask = "stop"
