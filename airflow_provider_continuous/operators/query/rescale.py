"""Give a query that keeps state more tasks, or fewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query.asking import QueryAskingOperator
from airflow_provider_continuous.operators.query.this_task import asker, result
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.tasks.arguments import check_found, whole_number
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.base import status_event
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryRescaledTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class RescaleContinuousQueryOperator(QueryAskingOperator):
    """Lets each stage of a query that keeps state have another number of tasks.

    The number is noted in the checkpoint: it holds for this run and for later starts, whatever
    option ``reducers`` says. A query that runs finishes and commits its open epoch, and goes on in
    place, each new task with the state of the keys that it owns; the task waits until it does. One
    that does not run begins with the new number. A retry neither asks nor rescales twice. Returns
    ``{query_id, run_id, checkpoint_location, epoch, state, reducers}``; ``epoch`` is the last
    committed one.

    All parameters of
    :class:`~airflow_provider_continuous.operators.query.asking.QueryAskingOperator`, and

    :param reducers: how many tasks each stage has, at least 1, as far as there are slots
        (templated); 0: as many as the query's option says.
    """

    template_fields: Sequence[str] = ("checkpoint_location", "reducers", "storage_conn_id")

    def __init__(self, *, reducers: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reducers = reducers

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, unless this task has done so already, and wait."""
        with final_errors():
            check_found(self, self._said)
            hook = ContinuousQueryHook(storage_conn_id=self.storage_conn_id)
            memory = TaskMemory(context)
            reducers = whole_number("reducers", self.reducers)
            asked = memory.recall("rescaled")
            if asked is None:
                before = hook.rescale(self.checkpoint_location, reducers or None, asker(context))
                run_id = before.run_id if before.state.is_active else None
                asked = {"run_id": run_id, "generation": before.generation}
                memory.remember("rescaled", asked)
            if asked["run_id"] is None:
                status = hook.status(self.checkpoint_location)
                event = status_event("rescaled", status)
                event["checkpoint_location"] = str(self.checkpoint_location)
                return self.execute_complete(context, event)
            trigger = QueryRescaledTrigger(
                str(self.checkpoint_location),
                asked["run_id"],
                asked["generation"],
                **self._waiting(),
            )
        return self.execute_complete(context, self._await(trigger))

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return where the query is, or fail as the wait tells."""
        expect(event, "rescaled")
        found = result(context, event["checkpoint_location"], event)
        reducers = whole_number("reducers", self.reducers)
        return {**found, "state": event["state"], "reducers": reducers or None}
