"""Restart a query, from where it was or from an earlier epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_continuous.connections.sinks import sink_to_rewind
from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.query.start import AwaitedStartOperator
from airflow_provider_continuous.operators.query.this_task import asker
from airflow_provider_continuous.outcomes import expect, has_failed
from airflow_provider_continuous.tasks.arguments import whole_number
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

End = Literal["drain", "stop"]
_NOBODY = "nobody"


class RestartContinuousQueryOperator(AwaitedStartOperator):
    """Ends the run that holds a checkpoint, and starts the query again.

    A query that does not run is only started. A retry goes on where the attempt before was
    interrupted: it neither restarts nor rewinds twice. Returns what
    :class:`~airflow_provider_continuous.operators.query.start.StartContinuousQueryOperator`
    returns, whose parameters but ``on_running`` it has, and

    :param end: ``drain``: the open epochs are committed first; ``stop``: they are aborted, and
        read again.
    :param from_epoch: the last epoch that stays: the query is rewound to its end before it starts
        (templated). The sink takes back the rows of later epochs.
    :param accept_repeats: with ``from_epoch``: go on with a sink that cannot take rows back; it
        gets them again. Without it the task fails then, and the query is ended and not started.
    :param timeout: how long to wait for the end, and again for the start.
    """

    template_fields: Sequence[str] = (*AwaitedStartOperator.template_fields, "from_epoch")

    def __init__(
        self,
        *,
        end: End = "drain",
        from_epoch: int | str | None = None,
        accept_repeats: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if end not in get_args(End):
            raise ValueError(f"{self.task_id}: end is {end!r}; it is drain or stop.")
        self.end = end
        self.from_epoch = from_epoch
        self.accept_repeats = accept_repeats

    def execute(self, context: Context) -> dict[str, Any]:
        """End the query, unless this task has done so already, and start it."""
        with final_errors():
            hook, memory = self._query_hook(), TaskMemory(context)
            memory.must_last("A restart")
            document = self._document(hook)
            location = str(document["checkpoint_location"])
            self._epoch()
            self._rewind_epoch()  # what is wrong fails before anything ends
            status = hook.status(location)
            self._check_successor(hook, document, status)
            old_run = memory.recall("old_run")
            if old_run is None:
                old_run = status.run_id if status.state.is_active else _NOBODY
                memory.remember("old_run", old_run)
            if not status.state.is_active or status.run_id != old_run:
                return self._start(context)
            ask = hook.drain if self.end == "drain" else hook.stop
            ask(location, by=asker(context), run_id=old_run)
            trigger = QueryEndedTrigger(location, old_run, **self._waiting(self._deadline()))
        return self.ended(context, self._wait(trigger, "ended"))

    def ended(self, context: Context, event: Event) -> dict[str, Any]:
        """Start the query, now that its old run is over."""
        expect(event, "ended")
        if has_failed(event):
            self.log.warning(
                "It ended as %s (%s): what was open is read again", event["state"], event["error"]
            )
        with final_errors():
            return self._start(context)

    def _start(self, context: Context) -> dict[str, Any]:
        deadline, hook = self._deadline(), self._query_hook()
        document = self._document(hook)
        location = str(document["checkpoint_location"])
        to_epoch, memory = self._rewind_epoch(), TaskMemory(context)
        if to_epoch is not None and not memory.recall("rewound"):
            checkpoint = CheckpointHook(location, self.storage_conn_id).checkpoint
            report = checkpoint.rewind(
                to_epoch,
                sink=sink_to_rewind(checkpoint, document),
                accept_repeats=self.accept_repeats,
            )
            memory.remember("rewound", report.to_dict())
            self.log.info("Rewound from epoch %d to %d", report.from_epoch, report.to_epoch)
        run = self._bring_up(document, hook, context, deadline)
        trigger = self._started(context, location, run, deadline, self._epoch())
        return self.execute_complete(context, self._wait(trigger))

    def _rewind_epoch(self) -> int | None:
        return None if self.from_epoch is None else whole_number("from_epoch", self.from_epoch)
