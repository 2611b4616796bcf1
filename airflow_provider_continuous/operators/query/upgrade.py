"""Change a query while it has a checkpoint, and go back if the new version is no good."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_continuous.deploy.submitted import QueryStartError
from airflow_provider_continuous.errors import QueryEndedError, final_errors, is_final
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.source_ends import SourceEnds
from airflow_provider_continuous.operators.query.base import QueryStartingOperator
from airflow_provider_continuous.operators.query.going_back import (
    Before,
    forget,
    go_back,
    remember,
)
from airflow_provider_continuous.operators.query.this_task import asker, result
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.tasks.arguments import (
    duration,
    given,
    optional_limit,
    per_source,
    whole_number,
)
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.base import status_event
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger, QueryRunningTrigger
from airflow_provider_continuous.triggers.supervise import HealthyEpochsTrigger
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError, ContinuousError

if TYPE_CHECKING:
    from airflow.sdk import Context

OnRollback = Literal["fail", "succeed"]


class UpgradeContinuousQueryOperator(QueryStartingOperator):
    """Replaces a query by a new version of it on the same checkpoint, or rolls back.

    1. Both specifications are checked. Nothing has happened yet.
    2. The old version is drained; its last epoch is pinned.
    3. The new version starts. The engine refuses one that must not go on from this checkpoint: with
       another source or sink, for example.
    4. ``watch_epochs`` epochs have to commit within ``watch_timeout``, with latencies below their
       limits and what has piled up meanwhile read. Then the upgrade is done.
    5. Otherwise the new version is stopped, the query rewound to the pinned epoch, and the old
       version, ``rollback_spec``, started. If the sink cannot take rows back, the old version goes
       on behind what the new one has committed, and the result says so.

    The old specification is nowhere kept, as it may hold secrets: ``rollback_spec`` has to say it.
    Without it a new version that fails is stopped and the query rewound, and nothing runs.

    A retry goes on where the attempt before was interrupted. Returns ``{upgraded, query_id, run_id,
    checkpoint_location, epoch}`` and, after a roll back, ``rewound`` and ``error``.

    Parameters are those of
    :class:`~airflow_provider_continuous.operators.query.start.StartContinuousQueryOperator`
    without ``on_changed``, ``wait_for``, ``on_running`` and what belongs to that, and

    :param rollback_spec: the old specification, a dict or a file as ``spec`` (templated).
    :param watch_epochs: how many epochs of the new version have to commit, 1 or more (templated).
    :param latency_max_ms: the 99th percentile of the time from reading a batch to having written
        it, of the newest epoch; None: any.
    :param commit_max_ms: the time from an epoch's end to its commit, of the newest epoch; None:
        any.
    :param lag_max: how far the committed offsets may be behind the end of ``source`` by then, in
        records of a ``kafka`` source, bytes of a ``tail`` source: the new version has to catch up.
    :param source: for ``lag_max``: the source's ``format``, ``options`` and ``connection``, or a
        list of those (templated). The triggerer, or the worker, must see what the query reads.
    :param watch_timeout: how long that may take, a timedelta or seconds.
    :param on_rollback: ``fail``: a task that has rolled back fails, for good, with what was wrong
        with the new version. ``succeed``: it returns ``upgraded: False``.
    :param timeout: how long a drain, a stop and a start may take each.
    """

    template_fields: Sequence[str] = (
        *QueryStartingOperator.template_fields,
        "rollback_spec",
        "source",
        "watch_epochs",
    )
    template_fields_renderers = {  # noqa: RUF012  # Airflow's declaration
        "spec": "json",
        "rollback_spec": "json",
        "source": "json",
    }

    def __init__(
        self,
        *,
        rollback_spec: Mapping[str, Any] | str | None = None,
        watch_epochs: int | str = 3,
        latency_max_ms: float | None = None,
        commit_max_ms: float | None = None,
        lag_max: int | None = None,
        source: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        watch_timeout: timedelta | float = 300.0,
        on_rollback: OnRollback = "fail",
        **kwargs: Any,
    ) -> None:
        if "on_changed" in kwargs:
            raise ValueError(f"{kwargs.get('task_id')}: an upgrade has no on_changed.")
        super().__init__(**kwargs)
        if on_rollback not in get_args(OnRollback):
            raise ValueError(
                f"{self.task_id}: on_rollback is {on_rollback!r}; it is fail or succeed."
            )
        self.rollback_spec = rollback_spec
        self.watch_epochs = watch_epochs
        self.latency_max_ms = optional_limit(f"{self.task_id}: latency_max_ms", latency_max_ms)
        self.commit_max_ms = optional_limit(f"{self.task_id}: commit_max_ms", commit_max_ms)
        if (lag_max is None) != (source is None):
            raise ValueError(f"{self.task_id}: lag_max and source belong together.")
        self.lag_max = optional_limit(f"{self.task_id}: lag_max", lag_max)
        self.source = source
        self.watch_timeout = duration(f"{self.task_id}: watch_timeout", watch_timeout)
        self.on_rollback = on_rollback
        self._said |= given(rollback_spec=rollback_spec, source=source)

    def execute(self, context: Context) -> dict[str, Any]:
        """Upgrade, or go on with it."""
        memory = TaskMemory(context)
        with final_errors():
            memory.must_last("An upgrade")
            location = self._check(context)
            if memory.recall("problem") is not None:
                return self._roll_back(context, location)
            if memory.recall("before") is not None:
                return self._start_new(context, location)
            hook = self._query_hook()
            status = hook.status(location)
            if status.state is QueryState.UNKNOWN:
                raise ConfigError(
                    f"There is no query of this engine at {location} to upgrade.",
                    hint="Check checkpoint_location; a query has to be started first.",
                )
            trigger = QueryEndedTrigger(
                location, str(status.run_id), **self._waiting(self._deadline())
            )
            if hook.may_go_on(location, status):
                hook.drain(location, by=asker(context), run_id=status.run_id)
        return self.drained(context, self._wait(context, trigger, "drained"))

    def drained(self, context: Context, event: Event) -> dict[str, Any]:
        """Start the new version."""
        expect(event, "ended")
        location = event["checkpoint_location"]
        with final_errors():
            before = remember(self._checkpoint(location), self._old_document())
            TaskMemory(context).remember("before", before.to_dict())
            self.log.info("The old version is %s at epoch %d", event["state"], before.epoch)
            return self._start_new(context, location)

    def watched(self, context: Context, event: Event) -> dict[str, Any]:
        """Be content with the new version, or roll back."""
        location = event["checkpoint_location"]
        if event["outcome"] == "healthy":
            with final_errors():
                forget(self._checkpoint(location))
            self.log.info("Upgraded: run %s is at epoch %s", event["run_id"], event["epoch"])
            return {"upgraded": True, **result(context, location, event)}
        if event["outcome"] == "replaced":
            raise QueryEndedError(
                f"Run {event['run_id']} has taken {location} over from the new version while it "
                "was watched. Nothing was rolled back."
            )
        if event["outcome"] == "error":
            problem = str(event["error"])
        elif event["outcome"] == "timeout":
            problem = f"{event['wanted']} did not come within {self.watch_timeout:g} s"
        else:
            expect(event, "ended")
            problem = str(
                self._with_log(
                    QueryEndedError(
                        f"it is {event['state']} at epoch {event['epoch']}: {event['error']}"
                    ),
                    context,
                    event["run_id"],
                )
            )
        with final_errors():
            return self._fall_back(context, location, problem)

    def stopped(self, context: Context, event: Event) -> dict[str, Any]:
        """Go back to the old version, now that the new one is over."""
        expect(event, "ended")
        with final_errors():
            return self._roll_back(context, event["checkpoint_location"])

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Tell that the old version runs again."""
        memory, location = TaskMemory(context), event["checkpoint_location"]
        problem = memory.recall("problem")
        if event["outcome"] != "running":
            raise self._with_log(
                QueryEndedError(
                    f"The new version is no good: {problem}\nAnd the old one does not run either: "
                    f"{event.get('state', event['outcome'])}: {event.get('error')}"
                ),
                context,
                event.get("run_id"),
            )
        return self._rolled_back(context, location, event)

    # -- steps ------------------------------------------------------------------------------------

    def _check(self, context: Context) -> str:
        """Return the location, once all is found right that can be checked."""
        whole_number("watch_epochs", self.watch_epochs, minimum=1)
        hook = self._query_hook()
        document = self._document(hook)
        location = str(document["checkpoint_location"])
        if TaskMemory(context).recall("before") is None:
            self._check_successor(hook, document, hook.status(location))
        if self.lag_max is not None:
            SourceEnds(self.source).lag(hook.status(location).offsets)
        if self.rollback_spec is not None:
            old = str(self._document(hook, self.rollback_spec)["checkpoint_location"])
            if old != location:
                raise ConfigError(
                    f"rollback_spec has the checkpoint {old}, and spec has {location}.",
                    hint="An upgrade goes on from the same checkpoint; give checkpoint_location.",
                )
        return location

    def _start_new(self, context: Context, location: str) -> dict[str, Any]:
        hook, before = self._query_hook(), Before(**TaskMemory(context).recall("before"))
        try:
            # Who runs it besides us would have to be watched as the new version: refuse.
            run = self._bring_up(self._document(hook), hook, context, self._deadline(), "fail")
        except ContinuousError as error:
            if not is_final(error) and not isinstance(error, QueryStartError):
                raise  # the storage, for example: a retry goes on from here
            return self._fall_back(context, location, str(error))
        trigger = HealthyEpochsTrigger(
            location,
            after_epoch=before.epoch,
            epochs=whole_number("watch_epochs", self.watch_epochs, minimum=1),
            latency_max_ms=self.latency_max_ms,
            commit_max_ms=self.commit_max_ms,
            lag_max=self.lag_max,
            sources=per_source(self.source),
            **self._watching(context, location, str(run.run_id), time.time() + self.watch_timeout),
        )
        return self.watched(context, self._wait(context, trigger, "watched"))

    def _fall_back(self, context: Context, location: str, problem: str) -> dict[str, Any]:
        """Stop the new version."""
        self.log.error("The new version is no good: %s", problem)
        TaskMemory(context).remember("problem", problem)
        return self._roll_back(context, location)

    def _roll_back(self, context: Context, location: str) -> dict[str, Any]:
        hook, memory = self._query_hook(), TaskMemory(context)
        status = hook.status(location)
        went_back = memory.recall("went_back")
        if went_back is None and status.state.is_active:
            if not self._is_own(hook, location, status, context):
                raise QueryEndedError(
                    f"The new version is no good: {memory.recall('problem')}\nAnd run "
                    f"{status.run_id}, which somebody else has started, holds {location}: nothing "
                    "was rolled back."
                )
            hook.stop(location, by=asker(context), run_id=status.run_id)
            trigger = QueryEndedTrigger(
                location, str(status.run_id), **self._waiting(self._deadline())
            )
            return self.stopped(context, self._wait(context, trigger, "stopped"))
        if went_back is None:
            before = Before(**memory.recall("before"))
            back = go_back(self._checkpoint(location), before, self._old_document())
            if not back.rewound:
                self.log.warning("What the new version has committed stays: %s", back.reason)
            memory.remember("went_back", {"rewound": back.rewound, "reason": back.reason})
        if self.rollback_spec is None:
            status = hook.status(location)
            return self._rolled_back(context, location, status_event("ended", status))
        document = self._document(hook, self.rollback_spec)
        run = self._bring_up(document, hook, context, self._deadline())
        trigger_back = QueryRunningTrigger(
            location,
            **self._watching(context, location, str(run.run_id), self._deadline()),
        )
        return self.execute_complete(context, self._wait(context, trigger_back))

    def _rolled_back(self, context: Context, location: str, event: Event) -> dict[str, Any]:
        memory = TaskMemory(context)
        problem, went_back = memory.recall("problem"), memory.recall("went_back")
        with final_errors():
            forget(self._checkpoint(location))
        now = (
            f"Run {event['run_id']} of the old version goes on"
            if self.rollback_spec is not None
            else "Nothing runs now, as there is no rollback_spec"
        )
        rows = (
            f"from epoch {memory.recall('before')['epoch']}"
            if went_back["rewound"]
            else f"behind what the new version has committed ({went_back['reason']})"
        )
        message = f"The new version is no good: {problem}\nRolled back. {now}, {rows}."
        if self.on_rollback == "fail":
            raise QueryEndedError(message)
        self.log.warning("%s", message)
        return {
            "upgraded": False,
            **result(context, location, event),
            "rewound": went_back["rewound"],
            "error": problem,
        }

    def _old_document(self) -> dict[str, Any]:
        """The old version's specification, or the new one's: their sinks are the same."""
        return self._document(self._query_hook(), self.rollback_spec)

    def _checkpoint(self, location: str) -> CheckpointHook:
        return CheckpointHook(location, self.storage_conn_id)
