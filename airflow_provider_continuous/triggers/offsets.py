"""OffsetsCommittedTrigger: wait until the sources' offsets are committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import is_over
from airflow_provider_continuous.triggers.base import CheckpointTrigger, status_event
from airflow_provider_continuous.triggers.poller import Event
from engine.base.text_tables import count
from engine.errors import ConfigError
from engine.sources.offset_order import check_order, reached


class OffsetsCommittedTrigger(CheckpointTrigger):
    """Ends with ``committed`` and ``{epoch, offsets, committed_at}`` of the epoch that showed it,
    or with ``ended``.

    :param offsets: what is waited for, one per source in the order of the checkpoint; None for a
        source that does not matter. As :func:`offsets_per_source` takes them: Airflow renders
        templates into the triggers that it starts itself.
    :param wait_for_restart: wait on when the query has ended before; otherwise that is the event
        ``ended``. A checkpoint of Spark itself does not tell whether its query lives.
    """

    def __init__(
        self,
        checkpoint_location: str,
        offsets: Any,
        wait_for_restart: bool = False,
        **waiting: Any,
    ) -> None:
        super().__init__(checkpoint_location, **waiting)
        self.offsets = offsets
        self.wait_for_restart = wait_for_restart

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "offsets": self.offsets,
            "wait_for_restart": self.wait_for_restart,
        }

    @property
    def wanted(self) -> str:
        """What is waited for, in words."""
        text = self.offsets if isinstance(self.offsets, str) else json.dumps(self.offsets)
        return f"the offsets {text if len(text) <= 500 else text[:500] + '...'}"

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if self._are_committed(self.offsets_of(status)):
            return {"outcome": "committed", **self.hook.describe_epoch(status.epoch)}
        if not self.wait_for_restart and is_over(status):
            return status_event("ended", status)
        return None

    def _are_committed(self, committed: Sequence[Any]) -> bool:
        if not committed:  # no epoch yet: what cannot be ordered is told when there is one
            return False
        wanted = offsets_per_source(self.offsets)
        if len(committed) != len(wanted):
            raise ConfigError(
                f"The query has {count(len(committed), 'source')}, and there are offsets for "
                f"{len(wanted)}.",
                hint="Give a list with one offset per source, null for one that does not matter.",
            )
        return all(
            want is None or reached(got, want) for got, want in zip(committed, wanted, strict=True)
        )


def offsets_per_source(offsets: Any) -> list[Any]:
    """Return offsets to wait for, as a list with one per source.

    :param offsets: that, or the offset of the only source, or the JSON text of either.
    :raises ConfigError: it is none of these, or an offset of no known order.
    """
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except ValueError:
            raise ConfigError(
                f"offsets is {offsets!r}, and no JSON.",
                hint="If it is a template, see in the task's rendered template what it became.",
            ) from None
    found = list(offsets) if isinstance(offsets, (list, tuple)) else [offsets]
    if not any(offset is not None for offset in found):
        raise ConfigError("offsets is empty: there is nothing to wait for.")
    for offset in found:
        if offset is not None:
            check_order(offset)
    return found
