"""See what a checkpoint tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.operators.checkpoint.base import CheckpointOperator
from airflow_provider_continuous.tasks.arguments import flag, whole_number
from engine.checkpoint.inspection import LAST_DEFAULT
from engine.commands.inspect_checkpoint import describe

if TYPE_CHECKING:
    from airflow.sdk import Context


class InspectCheckpointOperator(CheckpointOperator):
    """Looks into a checkpoint, of this engine or of Spark itself, and changes nothing.

    Writes a table to the task's log, and returns the same as JSON: location, status, written_by,
    logs (entries, bytes, first, last, gaps of each), open_epochs, epochs, last_progress, pins,
    copied_from, problems.

    :param last: so many of the newest epochs are described (templated).
    :param fail_on_problems: fail the task if an entry is unreadable or a log has a gap.
    """

    template_fields: Sequence[str] = (*CheckpointOperator.template_fields, "last")

    def __init__(
        self, *, last: int | str = LAST_DEFAULT, fail_on_problems: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.last = last
        self.fail_on_problems = flag(f"{self.task_id}: fail_on_problems", fail_on_problems)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look, log a table, and return it as JSON."""
        with final_errors():
            hook = self.hook()
            found = hook.inspect(whole_number("last", self.last, minimum=1))
        self.log.info("%s", describe(found))
        if found.problems and self.fail_on_problems:
            raise AirflowFailException(f"{found.location}: {' '.join(found.problems)}")
        return found.to_dict()
