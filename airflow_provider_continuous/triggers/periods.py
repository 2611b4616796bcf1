"""PeriodEventTrigger: days, or other periods, that are complete by event time, as asset events."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.tasks.arguments import instant, iso_time
from airflow_provider_continuous.triggers.telling import EVENTS_MAX, CheckpointEventTrigger, Told
from airflow_provider_continuous.triggers.watermark import WatermarkTrigger

DAY_S = 86_400


@dataclass(frozen=True)
class PeriodCursor:
    """All periods that end by then were told of, in milliseconds since 1970; None: there was no
    watermark that would say where to begin."""

    told_ms: int | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class PeriodEventTrigger(CheckpointEventTrigger):
    """For ``AssetWatcher``: an event for each period that the watermark of a query has passed.

    What the query has committed of such a period does not change any more. An event's payload is
    ``{id, query_id, checkpoint_location, start, end, epoch, offsets, committed_at, watermark}``:
    the period from ``start``, inclusive, to ``end``, exclusive (ISO 8601, UTC), and the epoch that
    showed it. Each period is told of once, the earliest first, also those in which nothing has
    happened; after a rewind, those that were told of are not told of again. With another period or
    offset, the first is the one in which those of before have ended.

    :param period_s: how long a period is, in whole seconds; the default is a day of UTC.
    :param offset_s: periods begin at this time after midnight of 1970-01-01, UTC, and at all
        multiples of the period before and behind it.
    :param lag_s: a period is complete when the watermark has passed its end by so many seconds:
        behind a join of streams, as long as that keeps rows.
    :param from_time: the start of the first period to tell of, as
        :func:`~airflow_provider_continuous.tasks.arguments.instant` takes it; None: the period
        that the first watermark is in. Only the first look of an asset counts.

    The other parameters are those of
    :class:`~airflow_provider_continuous.triggers.telling.CheckpointEventTrigger`.
    """

    noted_as = "period_events"

    def __init__(
        self,
        checkpoint_location: str,
        period_s: int = DAY_S,
        offset_s: int = 0,
        from_time: str | None = None,
        lag_s: int = 0,
        **watching: Any,
    ) -> None:
        super().__init__(checkpoint_location, **watching)
        if type(period_s) is not int or period_s < 1:
            raise ValueError(f"period_s is {period_s!r}; it is a whole number from 1.")
        if type(lag_s) is not int or lag_s < 0:
            raise ValueError(f"lag_s is {lag_s!r}; it is a whole number from 0.")
        if from_time is not None:
            instant("from_time", from_time)
        self.period_s = period_s
        self.offset_s = offset_s
        self.from_time = from_time
        self.lag_s = lag_s

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        own = {
            "period_s": self.period_s,
            "offset_s": self.offset_s,
            "from_time": self.from_time,
            "lag_s": self.lag_s,
        }
        return {**super().arguments(), **own}

    def read(self, noted: dict[str, Any] | None) -> Told:
        """Return the periods behind those that were told."""
        hook = CheckpointHook(self.checkpoint_location, self.storage_conn_id)
        epoch, watermark_ms = hook.watermark() or (-1, 0)
        complete_ms = watermark_ms - self.lag_s * 1000 if watermark_ms else 0
        reached_ms = self._border(complete_ms)
        told_ms = None if noted is None else PeriodCursor(**noted).told_ms
        # A border of other periods, if these were told of with other parameters.
        told_ms = self._begin(complete_ms) if told_ms is None else self._border(told_ms)
        if told_ms is None:
            return Told([], PeriodCursor(None), self._until(1))
        length_ms = self.period_s * 1000
        events = []
        if watermark_ms and told_ms < reached_ms:
            point = {
                "query_id": hook.checkpoint.query_id(),
                "checkpoint_location": hook.location.url,
                **hook.describe_epoch(epoch),
                "watermark": iso_time(watermark_ms),
            }
            last_ms = min(reached_ms, told_ms + EVENTS_MAX * length_ms)
            for end_ms in range(told_ms + length_ms, last_ms + 1, length_ms):
                start, end = iso_time(end_ms - length_ms), iso_time(end_ms)
                events.append(
                    {"id": f"{point['query_id']}/{end}", "start": start, "end": end, **point}
                )
            told_ms = last_ms
        return Told(events, PeriodCursor(told_ms), self._until(told_ms + length_ms))

    def _until(self, at_ms: int) -> WatermarkTrigger:
        at = iso_time(at_ms + self.lag_s * 1000)
        return WatermarkTrigger(self.checkpoint_location, at, **self.waiting())

    def _border(self, time_ms: int) -> int:
        """Where the period begins that a time is in."""
        length_ms, offset_ms = self.period_s * 1000, self.offset_s * 1000
        return (time_ms - offset_ms) // length_ms * length_ms + offset_ms

    def _begin(self, complete_ms: int) -> int | None:
        if self.from_time is None:
            return self._border(complete_ms) if complete_ms else None
        return self._border(round(instant("from_time", self.from_time).timestamp() * 1000))
