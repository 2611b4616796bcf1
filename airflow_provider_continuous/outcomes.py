"""What a task makes of the event that ended its wait."""

from __future__ import annotations

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.errors import QueryEndedError, WaitTimeoutError
from airflow_provider_continuous.triggers.poller import Event
from engine.checkpoint.query_state import QueryState


def has_failed(event: Event) -> bool:
    """Tell whether the query has ended by an error, or was lost: who wanted it may start it
    again."""
    return event.get("state") in (QueryState.FAILED.value, QueryState.LOST.value)


def expect(event: Event, outcome: str) -> Event:
    """Return the event if it is the one hoped for; else raise what ends the task.

    :param outcome: the outcome hoped for.
    :raises QueryEndedError: the query has ended first; no retry.
    :raises WaitTimeoutError: the deadline has passed.
    :raises AirflowFailException: the checkpoint cannot be used; no retry.
    """
    got = event["outcome"]
    if got == outcome:
        return event
    waited = f"Waited for {event['wanted']} of {event['checkpoint_location']}"
    if got == "timeout":
        raise WaitTimeoutError(f"{waited}, and it did not come in time.")
    if got == "ended":
        reason = f": {event['error']}" if event["error"] else ""
        raise QueryEndedError(
            f"{waited}, but the query is {event['state']} "
            f"at epoch {event['epoch']}{reason}. Start it again, then clear this task."
        )
    raise AirflowFailException(f"{waited}. {event['error']}")
