"""The options of the engine itself, given with ``write_stream(df).option(...)``, and the trigger's
interval."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

from engine.base.reasons import Reasons
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


WITHOUT_INTERVAL_MS = 1_000
"""How often an epoch elapses that is not committed, where epochs have no interval of their own."""
KEYS_STAY_IN_PARTITIONS = "keysStayInPartitions"
REPORT, RESTART = "report", "restart"
FAIL, SKIP, DEAD_LETTER = "fail", "skip", "dead-letter"


def _whole(default: int | None, minimum: int) -> Any:
    return field(default=default, metadata={"minimum": minimum})


def _interval(default: str | None) -> Any:
    """An interval, as ``"1 hour"``; the option's name is the field's without its unit."""
    return field(
        default=None if default is None else parse_interval_ms(default),
        metadata={"interval": True},
    )


def _choice(*choices: str) -> Any:
    return field(default=choices[0], metadata={"choices": choices})


class PortRange(NamedTuple):
    """Ports, the last one inclusive; port 0 stands for any that is free."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


ANY_PORT = PortRange(0, 0)


@dataclass(frozen=True)
class EngineOptions:
    """Settings of one query; the option's name is the field's in camel case. Those in milliseconds
    whose option does not say so take an interval: ``retrySinkFor`` takes ``"1 hour"``.

    :param min_epochs_to_retain: how many committed epochs the logs keep, at least 2.
    :param epoch_backlog_max: how often the open epoch may elapse, and not be closed because tasks
        are behind, with none committed meanwhile, before the query fails; or the final one of a
        drain, and not be finished. 0 for the default, see :meth:`backlog_max`. Without an interval
        an epoch elapses every :data:`WITHOUT_INTERVAL_MS`.
    :param partitions_per_task: so many partitions of a source share a task and its slot; 0: one
        each where there are slots enough, else as few as it takes.
    :param slots_to_keep_free: so many task slots are left to other jobs; None: those that the sink
        needs for its own, if there are more slots than streams.
    :param task_start_timeout_s: all tasks must have started within so many seconds of when the last
        one has found its slot and loaded its state.
    :param task_timeout_s: a task that was silent for so long is lost.
    :param lease_heartbeat_ms: how often the lease in the checkpoint is renewed.
    :param retry_infrastructure_for_ms: for how long lost tasks, executors and connections may keep
        the query from committing, while it is restarted in place, before it fails; see
        :mod:`engine.execution.restart_budget`. Zero: the first failure ends it.
    :param retry_storage_for_ms: the same while the checkpoint's storage fails.
    :param retry_source_for_ms: the same while the source fails.
    :param retry_sink_for_ms: the same while the sink fails.
    :param restarts_user: how often it is restarted after failures of expressions and the user's
        functions, until epochs were committed for ``restart_reset_after_s`` without one.
    :param restart_delay_ms: the pause before the first restart; doubled with each further one. A
        first restart after a lost task has none.
    :param restart_delay_max_ms: the longest pause.
    :param restart_reset_after_s: an outage is over, and counts begin anew, when epochs were
        committed for so long without a failure of the same culprit.
    :param slot_timeout_ms: for how long the query waits for free task slots before it does with
        fewer; None: what the launcher says, see :mod:`engine.execution.slots`.
    :param stall_after_intervals: the oldest epoch that is not committed so many intervals (of a
        second at least) after its end makes the query STALLED.
    :param on_stall: ``report`` it, or ``restart`` in place.
    :param on_bad_record: what a record does that cannot be parsed, or that an expression or a
        user's function fails on: ``fail`` the query, be counted and left out (``skip``), or be
        written to ``dead_letter_path`` (``dead-letter``).
    :param on_late_record: what a row does that is behind the watermark of a step with state: be
        counted and left out (``skip``), or be written to ``dead_letter_path``, too.
    :param dead_letter_path: a folder for JSON files.
    :param coordinator_port: where the driver listens for its tasks: a port, a range of which the
        first free one is taken (``"7100-7199"``), or ``"0"`` for any.
    :param metrics_port: where Prometheus finds the metrics of the query, a port or a range as
        above; empty: nowhere.
    :param metrics_host: the address of this machine that they are served at; empty: 127.0.0.1.
    :param open_telemetry: send the metrics by OTLP, see :mod:`engine.metrics.open_telemetry`.
    :param coordinator_tls: encrypt what driver and tasks say to each other.
    :param allow_changed_query: start even if the source or the sink are others than those of the
        checkpoint.
    :param static_side_max_bytes: how large a table may be that the stream is joined with.
    :param exact_math: `exp`, `log`, `pow` and the like have the very bits of Java's; otherwise they
        are some fifty times as fast, and may differ in the last place, see
        :mod:`engine.expressions.numbers.doubles`.
    :param refresh_interval: how often such tables are read again, e.g. ``"10 minutes"``; empty:
        only when the query starts.
    :param reducers: so many tasks of each stage that keeps state get its rows by their keys; 0: as
        many as the sources have partitions, but no more than ``spark.sql.shuffle.partitions``, and
        fewer where slots are.
    :param key_groups: that many parts of the state go from task to task when there are more or
        fewer of them: no stage has more tasks. Fixed with the first epoch of a checkpoint; None: as
        many as that has, :data:`engine.exchange.key_groups.KEY_GROUPS` in a new one.
    :param state_memory_max_bytes: a task that keeps state ends the query when its process has more
        memory than this, as it would be killed by the system otherwise; 0: there is no limit.
    :param state_spill_after_bytes: so much of a task's state is in memory, about; what is more is
        in files of its own, which the system pages in. 0: all of it is.
    :param state_scratch_folder: on each executor, for files of tasks whose state is large, see
        :mod:`engine.state.scratch`; empty: the first of Spark's local folders.
    :param watermark_idle_after_ms: of several streams with a watermark, one that no record has come
        from for so long does not hold that of the query back, e.g. ``"5 minutes"``; what comes from
        it later may be late. None: it does, as in Spark.
    :param source_poll_interval_ms: how often a source is asked for more that has no continuous
        reader of its own; None: see :mod:`engine.sources.polled.reader`.
    :param empty_epoch_interval: an epoch in which nothing was read or written goes on until
        something is, but not for longer than this, e.g. ``"5 minutes"``; empty: it ends after the
        trigger's interval, as the first one after a failure, and of a run that keeps state, does in
        any case. It ends when a timer of processing time is due, too.
    :param partial_aggregation: rows of a batch with the same key are folded before they are sent to
        the task that owns it, too.
    :param keys_stay_in_partitions: the rows of a key are all in one partition of the source, says
        the user: so a step that keeps state gets them from there, without an exchange.
    """

    min_epochs_to_retain: int = _whole(100, 2)
    epoch_backlog_max: int = _whole(0, 0)
    partitions_per_task: int = _whole(0, 0)
    slots_to_keep_free: int | None = _whole(None, 0)
    task_start_timeout_s: int = _whole(120, 1)
    task_timeout_s: int = _whole(30, 1)
    lease_heartbeat_ms: int = _whole(1_000, 50)
    retry_infrastructure_for_ms: int = _interval("1 hour")
    retry_storage_for_ms: int = _interval("1 hour")
    retry_source_for_ms: int = _interval("1 hour")
    retry_sink_for_ms: int = _interval("1 hour")
    restarts_user: int = _whole(3, 0)
    restart_delay_ms: int = _whole(100, 1)
    restart_delay_max_ms: int = _whole(60_000, 1)
    restart_reset_after_s: int = _whole(300, 0)
    slot_timeout_ms: int | None = _interval(None)
    stall_after_intervals: int = _whole(10, 1)
    on_stall: str = _choice(REPORT, RESTART)
    on_bad_record: str = _choice(FAIL, SKIP, DEAD_LETTER)
    on_late_record: str = _choice(SKIP, DEAD_LETTER)
    dead_letter_path: str = ""
    coordinator_port: str = "0"
    metrics_port: str = ""
    metrics_host: str = ""
    open_telemetry: bool = field(default=False, metadata={"choices": ("true", "false")})
    coordinator_tls: bool = field(default=False, metadata={"choices": ("true", "false")})
    allow_changed_query: bool = field(default=False, metadata={"choices": ("true", "false")})
    static_side_max_bytes: int = _whole(256 << 20, 1)
    exact_math: bool = field(default=False, metadata={"choices": ("true", "false")})
    refresh_interval: str = ""
    reducers: int = _whole(0, 0)
    key_groups: int | None = _whole(None, 1)
    partial_aggregation: bool = field(default=True, metadata={"choices": ("true", "false")})
    keys_stay_in_partitions: bool = field(default=False, metadata={"choices": ("true", "false")})
    state_memory_max_bytes: int = _whole(0, 0)
    state_spill_after_bytes: int = _whole(0, 0)
    state_scratch_folder: str = ""
    watermark_idle_after_ms: int | None = _interval(None)
    source_poll_interval_ms: int | None = _interval(None)
    empty_epoch_interval: str = ""

    @property
    def keeps_letters(self) -> bool:
        """Whether there are dead letters."""
        return DEAD_LETTER in (self.on_bad_record, self.on_late_record)

    @property
    def folds_before_sending(self) -> bool:
        """:attr:`partial_aggregation`, unless late rows are kept: a fold of several is none."""
        return self.partial_aggregation and self.on_late_record != DEAD_LETTER

    @property
    def empty_epoch_interval_ms(self) -> int:
        """:attr:`empty_epoch_interval`; 0: an empty epoch is as long as any."""
        if not self.empty_epoch_interval:
            return 0
        return parse_interval_ms(self.empty_epoch_interval, "Option emptyEpochInterval")

    def backlog_max(self, interval_ms: int) -> int:
        """How often the open epoch may elapse in vain: :attr:`epoch_backlog_max`, by default for
        five minutes, 10 times at least."""
        return self.epoch_backlog_max or max(300_000 // (interval_ms or WITHOUT_INTERVAL_MS), 10)

    @property
    def ports(self) -> PortRange:
        """:attr:`coordinator_port`.

        :raises ConfigError: it is none.
        """
        return _ports("coordinatorPort", self.coordinator_port, "7100", "7100-7199")

    @property
    def metrics_ports(self) -> PortRange | None:
        """:attr:`metrics_port`; None: metrics are not served.

        :raises ConfigError: it is none; or there is only an address.
        """
        if self.metrics_port:
            return _ports("metricsPort", self.metrics_port, "9464", "9464-9499")
        if self.metrics_host:
            raise ConfigError(
                f"Option metricsHost is {self.metrics_host!r}, and there is no metricsPort.",
                hint='Set option("metricsPort", "9464"), or leave metricsHost out.',
            )
        return None

    @property
    def refresh_interval_ms(self) -> int | None:
        """:attr:`refresh_interval`; None for never."""
        if not self.refresh_interval:
            return None
        return max(parse_interval_ms(self.refresh_interval, "Option refreshInterval"), 1)

    @classmethod
    def has(cls, name: str) -> bool:
        """Whether an option, in any case, is one of the engine's own."""
        return name.lower() in map(str.lower, cls.names())

    @classmethod
    def names(cls) -> list[str]:
        """Of all options."""
        return [_option(each) for each in fields(cls)]

    @classmethod
    def take(
        cls, options: Mapping[str, str], reasons: Reasons | None = None
    ) -> tuple[EngineOptions, dict[str, str]]:
        """Split a query's options (any case) into the engine's own and the sink's.

        :param reasons: hears what is wrong, in place of an error; an option that is wrong is then
            left out.
        :raises ConfigError: an engine option is not a whole number, is too small, no interval, or
            none of the words it may be; or two of them contradict each other; or it is one of an
            earlier release, and names the one in its place. All that is wrong is told at once.
        """
        by_name = {_option(each).lower(): each for each in fields(cls)}
        own: dict[str, Any] = {}
        rest: dict[str, str] = {}
        found = Reasons() if reasons is None else reasons
        for key, value in options.items():
            option = by_name.get(key.lower())
            if key.lower() in _REPLACED:
                found.hear(partial(_refuse_replaced, key))
            elif option is None:
                rest[key] = value
            else:
                own[option.name] = found.hear(partial(_parsed, key, str(value), option.metadata))
        wrong = {name for name, value in own.items() if value is None}
        if wrong & _OF_LETTERS or not found.hear(partial(_letters_fit, cls(**own))):
            wrong |= _OF_LETTERS
        taken = cls(**{name: value for name, value in own.items() if name not in wrong})
        # They raise here, not when they are used.
        for use in ("refresh_interval_ms", "empty_epoch_interval_ms", "ports", "metrics_ports"):
            found.hear(partial(getattr, taken, use))
        if reasons is None:
            found.raise_any()
        return taken, rest


_OF_LETTERS = frozenset({"on_bad_record", "on_late_record", "dead_letter_path"})


def _letters_fit(taken: EngineOptions) -> bool:
    """:raises ConfigError: they do not."""
    if taken.keeps_letters != bool(taken.dead_letter_path):
        raise ConfigError(
            f"Option onBadRecord is {taken.on_bad_record!r}, onLateRecord is "
            f"{taken.on_late_record!r} and deadLetterPath is {taken.dead_letter_path!r}: "
            "letters need a folder, and it needs letters.",
            hint='Set onBadRecord, onLateRecord, or both, to "dead-letter" and deadLetterPath '
            "to a folder.",
        )
    return True


def _ports(option: str, text: str, *examples: str) -> PortRange:
    parts = [part.strip() for part in text.split("-")]
    if len(parts) <= 2 and all(part.isdecimal() for part in parts):
        ports = PortRange(int(parts[0]), int(parts[-1]))
        if ports == ANY_PORT or 1 <= ports.first <= ports.last <= 65_535:
            return ports
    written = ", ".join(f'"{each}"' for each in examples)
    raise ConfigError(
        f"Option {option}: {text!r} is no port, and no range of ports.",
        hint=f'Write for example {written}, or "0" for any free port.',
    )


def _option(setting: Field[Any]) -> str:
    name = setting.name.removesuffix("_ms") if "interval" in setting.metadata else setting.name
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_REPLACED = {
    f"restarts{culprit}".lower(): f"retry{culprit}For"
    for culprit in ("Infrastructure", "Source", "Sink")
}


def _refuse_replaced(key: str) -> None:
    raise ConfigError(
        f"There is no option {key} any more: what can come back by itself is retried for a time, "
        "and not so many times.",
        hint=f'Set option("{_REPLACED[key.lower()]}", "1 hour"), or "0 seconds" to fail at once. '
        "A storage that is down has retryStorageFor; restartsUser is a count as before.",
    )


def _parsed(key: str, text: str, metadata: Mapping[str, Any]) -> Any:
    if "interval" in metadata:
        return parse_interval_ms(text, f"Option {key}")
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
