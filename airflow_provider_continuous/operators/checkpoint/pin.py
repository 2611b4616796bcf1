"""Keep an epoch to go back to, and let it go again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.operators.checkpoint.base import CheckpointOperator
from airflow_provider_continuous.tasks.arguments import given, optional_number

if TYPE_CHECKING:
    from airflow.sdk import Context


class PinEpochOperator(CheckpointOperator):
    """Gives a committed epoch a name, and keeps it for a rewind whatever is pruned.

    Works while the query runs. Returns name, epoch and pinned_at_ms. For checkpoints that the
    engine has run; the position of a files sink is kept with the pin.

    :param name: of the pin (templated): letters, digits, dots, dashes, underscores. If there is a
        pin of this name already, and no other epoch is asked for, it stays and is returned: a retry
        finds the pin of the first attempt.
    :param epoch: a committed epoch (templated); None: the last one.
    """

    template_fields: Sequence[str] = (*CheckpointOperator.template_fields, "name", "epoch")

    def __init__(self, *, name: str, epoch: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.epoch = epoch
        self._given = given(epoch=epoch)

    def execute(self, context: Context) -> dict[str, Any]:
        """Pin the epoch."""
        with final_errors():
            hook = self.engine_hook("pinned")
            pin = hook.pin(self.name, optional_number("epoch", self.epoch, self._given))
        self.log.info("Epoch %d of %s is pinned as %s.", pin.epoch, hook.location.url, pin.name)
        return pin.to_dict()


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
        self.missing_ok = missing_ok

    def execute(self, context: Context) -> dict[str, Any]:
        """Remove the pin."""
        with final_errors():
            hook = self.hook()
            known = any(pin.name == self.name for pin in hook.pins())
            if known or not self.missing_ok:
                hook.unpin(self.name)
        return {"name": self.name, "removed": known}
