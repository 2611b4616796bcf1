"""Keep an epoch to go back to, and let it go again."""

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


class PinEpochOperator(CheckpointOperator):
    """Gives a committed epoch a name, and keeps it for a rewind whatever is pruned.

    Works while the query runs. Returns name, epoch and pinned_at_ms. For checkpoints that the
    engine has run; the position of a files sink is kept with the pin.

    :param name: of the pin (templated): letters, digits, dots, dashes, underscores. If there is a
        pin of this name already, and no other epoch is asked for, it stays and is returned: a retry
        finds the pin of the first attempt.
    :param epoch: a committed epoch (templated); None: the last one.
    :param sink: ``{"format": ..., "options": {...}}`` (templated), with its ``connection`` if it
        has one: for a checkpoint that does not tell which sink its query has, or for a sink that
        is reached with secrets, which no checkpoint tells. What it tells may be left out.
    """

    template_fields: Sequence[str] = (*CheckpointOperator.template_fields, "name", "epoch", "sink")
    template_fields_renderers = {"sink": "json"}  # noqa: RUF012

    def __init__(
        self,
        *,
        name: str,
        epoch: int | str | None = None,
        sink: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.epoch = epoch
        self.sink = sink
        self._given = given(epoch=epoch)
        self._said |= given(sink=sink)

    def execute(self, context: Context) -> dict[str, Any]:
        """Pin the epoch."""
        with final_errors():
            hook = self.engine_hook("pinned")
            epoch = optional_number("epoch", self.epoch, self._given)
            pin = hook.pin(self.name, epoch, sink=self._sink(hook))
        self.log.info("Epoch %d of %s is pinned as %s.", pin.epoch, hook.location.url, pin.name)
        return pin.to_dict()

    def _sink(self, hook: CheckpointHook) -> Any:
        if self.sink is None:
            return None
        name, options = connected_sink(self.sink, "sink")
        found = hook.reopened(name, options)
        if found is None:
            raise ConfigError(
                f"The sink {name} has no position that could be kept with a pin.",
                hint="Leave sink out.",
            )
        return found


class UnpinEpochOperator(CheckpointOperator):
    """Forgets a pin; what pruning has removed meanwhile is gone with it.

    Returns ``{"name": ..., "removed": true}``.

    :param name: of the pin (templated).
    :param missing_ok: succeed with ``removed`` false if there is no such pin.
    """

    template_fields: Sequence[str] = (*CheckpointOperator.template_fields, "name")

    def __init__(self, *, name: str, missing_ok: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.missing_ok = flag(f"{self.task_id}: missing_ok", missing_ok)

    def execute(self, context: Context) -> dict[str, Any]:
        """Remove the pin."""
        with final_errors():
            hook = self.hook()
            known = any(pin.name == self.name for pin in hook.checkpoint.pinned_epochs())
            if known or not self.missing_ok:
                hook.unpin(self.name)
        return {"name": self.name, "removed": known}
