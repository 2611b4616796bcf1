"""Take a stopped query back to an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.connections.document import connected_sink
from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.operators.checkpoint.base import CheckpointOperator
from airflow_provider_continuous.tasks.arguments import flag, given, optional_number
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_continuous.hooks.checkpoint import CheckpointHook


class RewindCheckpointOperator(CheckpointOperator):
    """Takes a query that does not run back to the end of a committed epoch; its next start reads on
    from there.

    Refuses, before anything changes, while a run holds the checkpoint, and if the sink cannot take
    back the rows of later epochs. Files, Delta, Iceberg, PostgreSQL and SQL can, unless they say
    why not; memory and noop keep nothing; all others cannot. The later entries of the logs are
    moved to the checkpoint's folder ``rewound``, never deleted.

    For checkpoints that the engine has run. Returns to_epoch, from_epoch, generation, aside and
    taken_back.

    :param to_epoch: the last epoch that stays (templated); or
    :param to_pin: the name of a pin (templated).
    :param sink: ``{"format": ..., "options": {...}}`` (templated), with its ``connection`` if it
        has one: for a checkpoint that does not tell which sink its query has, or for a sink that
        is reached with secrets, which no checkpoint tells. What it tells may be left out.
    :param accept_repeats: go on with a sink that can never take rows back: it gets them again. One
        that can, but not these, refuses all the same; so does a query that Spark has run, whose
        sink would skip them.
    """

    template_fields: Sequence[str] = (
        *CheckpointOperator.template_fields,
        "to_epoch",
        "to_pin",
        "sink",
    )
    template_fields_renderers = {"sink": "json"}  # noqa: RUF012

    def __init__(
        self,
        *,
        to_epoch: int | str | None = None,
        to_pin: str | None = None,
        sink: Mapping[str, Any] | None = None,
        accept_repeats: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (to_epoch is None) == (to_pin is None):
            raise ValueError(f"{self.task_id}: give to_epoch or to_pin.")
        self.to_epoch = to_epoch
        self._given = given(to_epoch=to_epoch)
        self.to_pin = to_pin
        self._said |= given(to_pin=to_pin, sink=sink)
        self.sink = sink
        self.accept_repeats = flag(f"{self.task_id}: accept_repeats", accept_repeats)

    def execute(self, context: Context) -> dict[str, Any]:
        """Rewind, and return what was done."""
        with final_errors():
            hook = self.engine_hook("rewound")
            report = hook.rewind(
                optional_number("to_epoch", self.to_epoch, self._given),
                to_pin=self.to_pin,
                sink=self._sink(hook),
                accept_repeats=self.accept_repeats,
            )
        self.log.info(
            "Rewound from epoch %d to %d. The sink %s. The later entries of the logs are in %s.",
            report.from_epoch,
            report.to_epoch,
            "has taken back what came later" if report.taken_back else "gets what came later again",
            report.aside,
        )
        return report.to_dict()

    def _sink(self, hook: CheckpointHook) -> Any:
        if self.sink is None:
            return None
        found = hook.reopened(*connected_sink(self.sink, "sink"))
        if found is None and not self.accept_repeats:
            raise ConfigError(
                f"The sink {self.sink['format']} cannot take back the rows of later epochs.",
                hint="If the rows may repeat, or you have removed them, set accept_repeats=True.",
            )
        return found
