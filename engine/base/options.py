"""The options of the engine itself, given with ``write_stream(df).option(...)``, and the trigger's
interval."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

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


REPORT, RESTART = "report", "restart"
FAIL, SKIP, DEAD_LETTER = "fail", "skip", "dead-letter"


def _whole(default: int, minimum: int) -> Any:
    return field(default=default, metadata={"minimum": minimum})


def _choice(*choices: str) -> Any:
    return field(default=choices[0], metadata={"choices": choices})


@dataclass(frozen=True)
class EngineOptions:
    """Settings of one query; the option's name is the field's in camel case.

    :param min_epochs_to_retain: how many committed epochs the logs keep, at least 2.
    :param epoch_backlog_max: how many epochs may be closed and not committed.
    :param task_start_timeout_s: all tasks must have started within so many seconds.
    :param task_timeout_s: a task that was silent for so long is lost.
    :param lease_heartbeat_ms: how often the lease in the checkpoint is renewed.
    :param restarts_infrastructure: how often the query is restarted in place after lost tasks,
        executors and connections, before it fails; see :mod:`engine.execution.restart_budget`.
    :param restarts_source: the same after failures of the source.
    :param restarts_sink: the same after failures of the sink.
    :param restarts_user: the same after failures of expressions and the user's functions.
    :param restart_delay_ms: the pause before the first restart; doubled with each further one. A
        first restart after a lost task has none.
    :param restart_delay_max_ms: the longest pause.
    :param restart_reset_after_s: a query that was healthy for so long starts counting anew.
    :param stall_after_intervals: an epoch that is not committed so many intervals (of a second at
        least) after its end makes the query STALLED.
    :param on_stall: ``report`` it, or ``restart`` in place.
    :param on_bad_record: what a record does that cannot be parsed, or that an expression or a
        user's function fails on: ``fail`` the query, be counted and left out (``skip``), or be
        written to ``dead_letter_path`` (``dead-letter``).
    :param dead_letter_path: a folder for JSON files.
    :param allow_changed_query: start even if the source or the sink are others than those of the
        checkpoint.
    :param static_side_max_bytes: how large a table may be that the stream is joined with.
    :param refresh_interval: how often such tables are read again, e.g. ``"10 minutes"``; empty:
        only when the query starts.
    :param empty_epoch_interval: an epoch in which nothing was read goes on until something is, but
        not for longer than this, e.g. ``"5 minutes"``; empty: it ends after the trigger's interval.
    """

    min_epochs_to_retain: int = _whole(100, 2)
    epoch_backlog_max: int = _whole(1_000, 1)
    task_start_timeout_s: int = _whole(120, 1)
    task_timeout_s: int = _whole(30, 1)
    lease_heartbeat_ms: int = _whole(1_000, 50)
    restarts_infrastructure: int = _whole(10, 0)
    restarts_source: int = _whole(5, 0)
    restarts_sink: int = _whole(5, 0)
    restarts_user: int = _whole(3, 0)
    restart_delay_ms: int = _whole(100, 1)
    restart_delay_max_ms: int = _whole(60_000, 1)
    restart_reset_after_s: int = _whole(300, 0)
    stall_after_intervals: int = _whole(10, 1)
    on_stall: str = _choice(REPORT, RESTART)
    on_bad_record: str = _choice(FAIL, SKIP, DEAD_LETTER)
    dead_letter_path: str = ""
    allow_changed_query: bool = field(default=False, metadata={"choices": ("true", "false")})
    static_side_max_bytes: int = _whole(256 << 20, 1)
    refresh_interval: str = ""
    empty_epoch_interval: str = ""

    @property
    def empty_epoch_interval_ms(self) -> int:
        """:attr:`empty_epoch_interval`; 0: an empty epoch is as long as any."""
        if not self.empty_epoch_interval:
            return 0
        return parse_interval_ms(self.empty_epoch_interval, "Option emptyEpochInterval")

    @property
    def refresh_interval_ms(self) -> int | None:
        """:attr:`refresh_interval`; None for never."""
        if not self.refresh_interval:
            return None
        return max(parse_interval_ms(self.refresh_interval, "Option refreshInterval"), 1)

    @classmethod
    def take(cls, options: Mapping[str, str]) -> tuple[EngineOptions, dict[str, str]]:
        """Split a query's options (any case) into the engine's own and the sink's.

        :raises ConfigError: an engine option is not a whole number, is too small, or is none of
            the words it may be; or two of them contradict each other.
        """
        by_name = {each.name.replace("_", "").lower(): each for each in fields(cls)}
        own: dict[str, Any] = {}
        rest: dict[str, str] = {}
        for key, value in options.items():
            option = by_name.get(key.lower())
            if option is None:
                rest[key] = value
            else:
                own[option.name] = _parsed(key, str(value), option.metadata)
        taken = cls(**own)
        if (taken.on_bad_record == DEAD_LETTER) != bool(taken.dead_letter_path):
            raise ConfigError(
                f"Option onBadRecord is {taken.on_bad_record!r} and deadLetterPath is "
                f"{taken.dead_letter_path!r}: one needs the other.",
                hint='Set onBadRecord to "dead-letter" and deadLetterPath to a folder.',
            )
        # They raise here, not when it is due.
        taken.refresh_interval_ms  # noqa: B018
        taken.empty_epoch_interval_ms  # noqa: B018
        return taken, rest


def _parsed(key: str, text: str, metadata: Mapping[str, Any]) -> Any:
    choices, minimum = metadata.get("choices"), metadata.get("minimum")
    if choices is not None:
        if text.lower() not in choices:
            raise ConfigError(f"Option {key}: {text!r} is none of {', '.join(choices)}.")
        return text.lower() == "true" if "true" in choices else text.lower()
    if minimum is None:
        return text
    if not text.strip().isdecimal() or int(text) < minimum:
        raise ConfigError(f"Option {key}: {text!r} is not a whole number of at least {minimum}.")
    return int(text)
