"""What all operators have in common that start a query."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from airflow_provider_continuous.compat import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
)
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.driver_log import tail
from airflow_provider_continuous.deploy.options import LEAD_TO_DRIVER
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.errors import (
    QueryEndedError,
    QueryFailedError,
    final_errors,
    is_final,
)
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query.described import DescribedQueryOperator
from airflow_provider_continuous.operators.query.this_task import asker, this_task, users
from airflow_provider_continuous.outcomes import expect, has_failed
from airflow_provider_continuous.reconcile import (
    Decision,
    Verdict,
)
from airflow_provider_continuous.tasks.killing import (
    EndsWithTask,
    QueryOfTask,
    StartOfTask,
    TaskIdentity,
)
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.tasks.query_note import tell_query
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from airflow_provider_continuous.triggers.start import SubmissionTrigger
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.errors import ContinuousError
from engine.redaction.logs import redact

if TYPE_CHECKING:
    from airflow.sdk import Context

OnRunning = Literal["adopt", "fail", "replace"]
End = Literal["drain", "stop"]
_NOBODY = "nobody"
_SUBMISSIONS_MAX = 8
START_LINGER_S = 30.0
"""So long a worker waits for a submission: most have started by then."""
_Error = TypeVar("_Error", QueryEndedError, QueryFailedError)
ON_KILL_S = 4.0
"""Airflow kills the process of a killed task after five seconds."""


class QueryStartingOperator(DescribedQueryOperator):
    """Starts a query from a specification; how is up to the operators."""

    end: End = "drain"
    """How a run ends that is replaced."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._watched: EndsWithTask | None = None
        self._was_killed = False
        self._resumed: SubmittedQuery | None = None
        self._is_last = False

    def on_kill(self) -> None:
        """End the query as ``on_kill_action`` says, if somebody has ended this task indeed, or its
        last attempt has come to its ``execution_timeout``: Airflow asks before it says so."""
        is_over = self._is_last and isinstance(sys.exc_info()[1], AirflowTaskTimeout)
        self._was_killed = True
        if self._watched is not None:
            self._watched.end_within(ON_KILL_S, is_over=is_over)
        elif self.on_kill_action != "detach":
            self.log.info("Killed before this task has started anything: what it starts yet ends")

    # -- for the operators ------------------------------------------------------------------------

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
        users(context, location, self.storage_conn_id).enter(this_task(context))
        self._is_last = is_last_attempt(context)
        tell_query(context, location, self.storage_conn_id)
        submitted, self._resumed = self._resumed, None
        with self._leaving_if_refused(context, location):
            if submitted is not None:
                run = self._started_run(submitted, document, hook, deadline, context, on_running)
            else:
                run = self._adopted_or_started(document, hook, deadline, context, on_running)
        self._watch(location, str(run.run_id), context)
        return run

    def woken(self, context: Context, event: Event) -> Any:
        """Go on with a start after its wait in the triggerer: what was in the way has ended, or a
        submission has its run, has ended, or is too late."""
        TaskMemory(context).take_over(event)
        number = event.get("number")
        with final_errors():
            if number is None:
                with self._leaving_if_refused(context, event["checkpoint_location"]):
                    self._gave_way(event)
            else:
                found = self._query_hook().submission(event["checkpoint_location"], int(number))
                if found is not None:
                    found.own = found.handle.by == str(TaskIdentity.of(context["ti"]))
                    found.handle = replace(found.handle, log_position=event["log_position"])
                self._resumed = found
        self._given_deadline = event["deadline"]
        return self.execute(context)

    def _watch(self, location: str, run_id: str, context: Context) -> None:
        """Make a run the one that ``on_kill`` asks to end."""
        self._is_last = is_last_attempt(context)
        hook, task = self._opened(location), TaskIdentity.of(context["ti"])
        self._end_with(QueryOfTask(self.on_kill_action, hook, run_id, task, self.log))

    def _end_with(self, watched: EndsWithTask) -> None:
        """Make it what ``on_kill`` asks to end. It may have been called: the process of a killed
        task goes on for some seconds, and nobody would know what it has started in these."""
        self._watched = watched
        if self._was_killed:
            self.on_kill()

    def _opened(self, location: str) -> CheckpointHook:
        """Return a checkpoint for ``on_kill``: in a signal handler no connection is looked up."""
        checkpoint = CheckpointHook(location, self.storage_conn_id)
        _ = checkpoint.checkpoint
        return checkpoint

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

    def _with_log(self, error: _Error, context: Context, run_id: str | None = None) -> _Error:
        """Add the end of the log of what this task has started, if it is on this machine.

        :param run_id: the run that the error is about; another one's log would mislead.
        """
        started = (TaskMemory(context).recall("submissions") or [{}])[-1]
        other = run_id is not None and started.get("run_id") not in (None, run_id)
        output = "" if other or "log" not in started else tail(Path(started["log"]))
        return type(error)(f"{error}\nThe end of its log:\n{output}") if output else error

    @contextmanager
    def _leaving_if_refused(self, context: Context, location: str) -> Iterator[None]:
        """Use the query no more, if this task has not got it and no retry comes."""
        try:
            yield
        except (AirflowException, ContinuousError) as error:
            usage = users(context, location, self.storage_conn_id)
            if _is_for_good(error, context) and usage.came_in(this_task(context)):
                usage.leave()  # else who uses it indeed would leave it to nobody
            raise

    def _leave(self, context: Context, location: str) -> None:
        """The query has ended, and this DAG run does not start it again: who does uses it alone.

        What fails here is no reason for a retry, which would start it.
        """
        try:
            users(context, location, self.storage_conn_id).leave()
        except ContinuousError as error:
            self.log.warning("%s still seems to use it: %s", context["run_id"], redact(str(error)))

    def _end_what_was_started(self, context: Context, location: str) -> str:
        """The start has failed though its run is there: end the run as ``on_kill_action`` says,
        unless a retry adopts it, or it is somebody else's.

        :returns: what was done, for the error.
        """
        hook = self._query_hook()
        status = hook.status(location)
        if not status.state.is_active or not self._is_own(hook, location, status, context):
            return ""
        run = f"Run {status.run_id}, which this task has started,"
        if not is_last_attempt(context):
            return f"{run} goes on: a retry adopts it."
        if self.on_kill_action == "detach":
            return f"{run} goes on, as on_kill_action is 'detach'."
        others = users(context, location, self.storage_conn_id).others()
        if others:
            return f"{run} goes on, as it is used by {'; '.join(others)}."
        ask = hook.drain if self.on_kill_action == "drain" else hook.stop
        ask(location, by=asker(context), run_id=status.run_id)
        self._leave(context, location)
        return f"{run} was asked to {self.on_kill_action}."

    # -- starting ---------------------------------------------------------------------------------

    def _adopted_or_started(
        self,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        deadline: float,
        context: Context,
        on_running: OnRunning,
    ) -> CheckpointStatus:
        running = hook.find(str(document["checkpoint_location"]))
        old_run = self._old_run(running, context) if on_running == "replace" else None
        if running is None or self._makes_room(
            running, hook, document, deadline, context, on_running, old_run
        ):
            self._before_start(document, context)
            return self._submit(document, hook, deadline, context, on_running)
        self.log.info("Adopted run %s on %s", running.run_id, document["checkpoint_location"])
        return running

    def _before_start(self, document: Mapping[str, Any], context: Context) -> None:
        """Do what has to be done while nobody runs the query."""

    def _old_run(self, running: CheckpointStatus | None, context: Context) -> str:
        """Return the run that ran when this task began: a retry replaces no other one."""
        memory = TaskMemory(context)
        old_run = memory.recall("old_run")
        if old_run is None:
            old_run = _NOBODY if running is None else str(running.run_id)
            memory.remember("old_run", old_run)
        return str(old_run)

    def _makes_room(
        self,
        running: CheckpointStatus,
        hook: ContinuousQueryHook,
        document: Mapping[str, Any],
        deadline: float,
        context: Context,
        on_running: OnRunning,
        old_run: str | None,
    ) -> bool:
        """Tell whether the running query gives way, and wait until it has; False adopts it.

        :param old_run: the run that is to be replaced.
        """
        location = str(document["checkpoint_location"])
        own = self._is_own(hook, location, running, context)
        draining = hook.is_ending(location, running)
        if on_running == "fail" and not own:
            raise AirflowFailException(
                f"Run {running.run_id} is {running.state.value} on {location} already "
                f"(process {running.pid} on {running.host}). Drain or stop it first, or choose "
                "on_running='adopt' or 'replace'."
            )
        replaced = not own and running.run_id == old_run
        if not draining and not replaced:
            what = f"run {running.run_id}"
            if not self._gives_way(hook.reconcile(document, running, self.on_changed), what):
                return False
        if replaced or not draining:
            ask = hook.stop if replaced and self.end == "stop" else hook.drain
            ask(location, by=asker(context), run_id=running.run_id)
        ended = QueryEndedTrigger(location, str(running.run_id), **self._waiting(deadline))
        self._gave_way(self._wait(context, ended, "woken"))
        return True

    def _gave_way(self, event: Event) -> None:
        expect(event, "ended")
        if has_failed(event):
            self.log.warning(
                "It ended as %s (%s): what was open is read again", event["state"], event["error"]
            )

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

    def _is_own(
        self, hook: ContinuousQueryHook, location: str, status: CheckpointStatus, context: Context
    ) -> bool:
        """Tell whether this task, in whichever attempt, has started this run; it may also have
        waited for what others have submitted."""
        memory, own = TaskMemory(context), str(TaskIdentity.of(context["ti"]))
        handles = map(Handle.read, memory.recall("submissions") or [])
        if any(handle.by == own and handle.run_id == status.run_id for handle in handles):
            return True
        # A worker that died in between has noted in the checkpoint what it could not remember; and
        # of a submission that had no run the note tells whether it has ended without one.
        return bool(memory.recall("submits")) and hook.submitter_of(location, status) == own

    def _submit(
        self,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        deadline: float,
        context: Context,
        on_running: OnRunning,
    ) -> CheckpointStatus:
        submitted = self._submitted(document, hook, context, on_running)
        memory = TaskMemory(context)
        # All of them: one that was killed early may have started a run that appears only now.
        earlier = (memory.recall("submissions") or [])[-_SUBMISSIONS_MAX:]
        memory.remember("submissions", [*earlier, _without_document(submitted.handle)])
        return self._started_run(submitted, document, hook, deadline, context, on_running)

    def _started_run(
        self,
        submitted: SubmittedQuery,
        document: Mapping[str, Any],
        hook: ContinuousQueryHook,
        deadline: float,
        context: Context,
        on_running: OnRunning,
    ) -> CheckpointStatus:
        """Wait until a submission holds the checkpoint: here for a while, then in the triggerer."""
        checkpoint = self._opened(submitted.checkpoint_location)
        task = TaskIdentity.of(context["ti"])
        self._end_with(StartOfTask(self.on_kill_action, checkpoint, submitted, task, self.log))
        try:
            status = None
            while status is None:
                left_s = max(1.0, deadline - time.time())
                leaves = self.deferrable and left_s > 1.0
                linger_s = START_LINGER_S if leaves else math.inf
                status = hook.started_within(submitted, left_s, linger_s)
                if status is None:
                    name = submitted.handle.name
                    self.log.info("Submission %s is waited for without a worker", name)
                    self._wait(context, self._submission_trigger(submitted, deadline), "woken")
            memory = TaskMemory(context)
            earlier = (memory.recall("submissions") or [])[:-1]
            memory.remember("submissions", [*earlier, _without_document(submitted.handle)])
            return status
        except QueryStartError:
            # Two tasks may start the same query at once: one of them gets the lease.
            location = submitted.checkpoint_location
            winner = hook.find(location)
            if winner is None or winner.state is QueryState.DRAINING:
                raise
            if on_running != "adopt" and not self._is_own(hook, location, winner, context):
                raise
            self.log.info("Run %s was faster", winner.run_id)
            return self._bring_up(document, hook, context, deadline, on_running)

    def _submission_trigger(self, submitted: SubmittedQuery, deadline: float) -> CheckpointTrigger:
        handle, told = submitted.handle, dict(self.spark_submit or {})
        return SubmissionTrigger(
            submitted.checkpoint_location,
            number=handle.number,
            previous_run_id=handle.previous_run_id,
            continuous_conn_id=self.continuous_conn_id,
            # Other options do not lead to a driver, and may be secret.
            spark_submit={key: told[key] for key in told if key in LEAD_TO_DRIVER},
            on_kill_action=self.on_kill_action,
            log_path=handle.log or None,
            log_position=handle.log_position,
            **self._waiting(deadline),
        )

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
        TaskMemory(context).remember("submits", True)
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


def _is_for_good(error: Exception, context: Context) -> bool:
    """Tell whether no retry comes."""
    is_sure = isinstance(error, ContinuousError) and is_final(error)
    return is_sure or isinstance(error, AirflowFailException) or is_last_attempt(context)


def is_last_attempt(context: Context) -> bool:
    """Tell whether no retry is left."""
    return bool(context["ti"].try_number > context["ti"].max_tries)


def _without_document(handle: Handle) -> dict[str, Any]:
    """As JSON; what was submitted is noted in the checkpoint."""
    return replace(handle, document=None).to_dict()
