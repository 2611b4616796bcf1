"""See to it that a second driver stands by for the query of a task."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Event
from typing import Any, Final

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ContinuousError
from engine.redaction.logs import redact

DUE_S: Final = 120.0
"""So long a standby may take until it waits; a new one is started no more often than that."""
_READS_S: Final = 60.0
_LOOK_S: Final = 0.05


def keep_standby(
    hook: ContinuousQueryHook, document: Mapping[str, Any], by: str, timeout_s: float, log: Any
) -> float | None:
    """Start a standby for the run that holds the checkpoint, unless it has one. What keeps it from
    starting is logged: the query runs all the same.

    One that is on its way for longer than ``timeout_s`` hangs: it is ended, and another one starts.

    :param document: what the standby would run.
    :param by: who starts it.
    :returns: from when on it is missed if it does not wait, seconds since 1970; None: the query
        that runs is another one, and gets none from here.
    """
    location = str(document["checkpoint_location"])
    due = time.time() + DUE_S
    try:
        status = hook.status(location)
        if not status.state.is_active:
            return due
        verdict = hook.reconcile(document, status, "adopt")
        if verdict.changes or not verdict.is_known:
            why = verdict.listed or "nobody has noted its document"
            log.warning("Run %s gets no standby of this task, which has another query: %s",
                        status.run_id, why)  # fmt: skip
            return None
        submitted = hook.stand_by(document, by)
        if submitted is not None and _hung(hook, submitted, timeout_s, log):
            submitted = hook.stand_by(document, by)
        if submitted is not None:
            _wait_until_read(submitted)
    except (ContinuousError, OSError) as error:  # a machine without room for a second driver
        log.warning("The query of %s has no standby: %s", location, redact(str(error)))
    return due


def end_standby(hook: ContinuousQueryHook, location: str, log: Any) -> None:
    """End the standby before its query is asked to end. One that cannot be reached from here ends
    with the query, whose run has been asked to."""
    try:
        if not hook.end_standby(location):
            log.info("The standby is not to be reached from here: it ends with the query")
    except ContinuousError as error:
        log.warning("It cannot be told whether there is a standby: %s", error)


def _hung(hook: ContinuousQueryHook, submitted: SubmittedQuery, timeout_s: float, log: Any) -> bool:
    """End a standby that is late; tell whether it has ended."""
    handle, location = submitted.handle, submitted.checkpoint_location
    if handle.age_s <= timeout_s or submitted.runs(hook.status(location)):
        return False
    late = (
        f"The standby of {location}, process {handle.pid} on {handle.host}, log {handle.log}, does "
        f"not wait {handle.age_s:.0f} s after its start"
    )
    if not submitted.end():
        log.warning("%s, and could not be ended from here: end it by hand", late)
        return False
    log.warning("%s: it was ended, and another one follows", late)
    return True


def _wait_until_read(submitted: SubmittedQuery) -> None:
    """Until the standby has read its files, which may hold secrets, or has ended."""
    never, until = Event(), time.monotonic() + _READS_S
    try:
        while not submitted.has_read_its_files and time.monotonic() < until:
            if submitted.look().state is DriverState.ENDED:
                raise submitted.start_error("has a standby, which ended")
            never.wait(_LOOK_S)
    finally:
        submitted.forget_secrets()
