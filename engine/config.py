"""The options of the engine itself, given with ``write_stream(df).option(...)``, and the trigger's
interval."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from engine.errors import ConfigError

_UNITS_MS = {
    "microsecond": 0.001,
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "m": "minute", "h": "hour"}
_TERM = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)")


def parse_interval_ms(text: str, what: str = "trigger(continuous=...)") -> int:
    """Milliseconds of an interval as Spark writes them: ``"1 second"``, ``"2 minutes 500 ms"``.

    :param what: names the setting in the error.
    :raises ConfigError: not an interval, negative, or with months or years.
    """
    body = text.strip().lower()
    body = body.removeprefix("interval").strip()
    total, position = 0.0, 0
    while position < len(body):
        term = _TERM.match(body, position)
        unit = term.group(2) if term else ""
        unit = _SHORT.get(unit, unit.removesuffix("s"))
        if term is None or unit not in _UNITS_MS:
            reason = (
                "months and years have no fixed length"
                if unit in ("month", "year")
                else "it is not an interval"
            )
            raise ConfigError(
                f"{what}: {text!r} cannot be used: {reason}.",
                hint='Write for example "1 second", "500 milliseconds" or "2 minutes".',
            )
        total += float(term.group(1)) * _UNITS_MS[unit]
        position = term.end()
    if not body or total < 0:
        raise ConfigError(
            f"{what}: {text!r} cannot be used: an interval is zero or more.",
            hint='Write for example "1 second".',
        )
    return round(total)


@dataclass(frozen=True)
class EngineOptions:
    """Settings of one query; the option's name is the field's in camel case.

    :param min_epochs_to_retain: how many committed epochs the logs keep, at least 2.
    :param epoch_backlog_max: how many epochs may be closed and not committed.
    :param task_start_timeout_s: all tasks must have started within so many seconds.
    :param task_timeout_s: a task that was silent for so long is lost.
    :param lease_heartbeat_ms: how often the lease in the checkpoint is renewed.
    :param static_side_max_bytes: how large a table may be that the stream is joined with.
    """

    min_epochs_to_retain: int = 100
    epoch_backlog_max: int = 1_000
    task_start_timeout_s: int = 120
    task_timeout_s: int = 30
    lease_heartbeat_ms: int = 1_000
    static_side_max_bytes: int = 256 << 20

    _MINIMA = {  # noqa: RUF012  # a table, not a field
        "min_epochs_to_retain": 2,
        "epoch_backlog_max": 1,
        "task_start_timeout_s": 1,
        "task_timeout_s": 1,
        "lease_heartbeat_ms": 50,
        "static_side_max_bytes": 1,
    }

    @classmethod
    def names(cls) -> dict[str, str]:
        """Lower-case option name → field name."""
        return {field.name.replace("_", "").lower(): field.name for field in fields(cls)}

    @classmethod
    def take(cls, options: Mapping[str, str]) -> tuple[EngineOptions, dict[str, str]]:
        """Split a query's options (any case) into the engine's own and the sink's.

        :raises ConfigError: an engine option is not a whole number or is too small.
        """
        names, own, rest = cls.names(), {}, {}
        for key, value in options.items():
            name = names.get(key.lower())
            if name is None:
                rest[key] = value
                continue
            minimum = cls._MINIMA[name]
            if not str(value).strip().isdecimal() or int(value) < minimum:
                raise ConfigError(
                    f"Option {key}: {value!r} is not a whole number of at least {minimum}."
                )
            own[name] = int(value)
        return cls(**own), rest
