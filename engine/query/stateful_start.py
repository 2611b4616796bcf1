"""What a start asks of a query that keeps state, beside its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from engine.base.options import KEYS_STAY_IN_PARTITIONS, SKIP, EngineOptions
from engine.coordinator.watermarks import MAX
from engine.errors import ConfigError
from engine.exchange.key_groups import KEY_GROUPS_MAX
from engine.execution.definition import StreamBinding
from engine.pipeline.pipeline import Pipeline, Watermark
from engine.pipeline.stateful import StatefulStep, leaves_out_late_rows
from engine.query.write_request import WriteRequest
from engine.sinks.builtin_sinks import sink_kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def check_output_mode(request: WriteRequest) -> None:
    """:raises ConfigError: the sink cannot do with rows that come again."""
    name = str(request.sink_format)
    modes = sink_kind(name).output_modes
    if request.output_mode not in modes:
        raise ConfigError(
            f"The sink {name} does not support the output mode {request.output_mode}.",
            hint=f"It supports {' and '.join(modes)}; foreachBatch gets the rows of any mode.",
        )


def check_key_groups(options: EngineOptions) -> None:
    """:raises ConfigError: there are more than can be told apart, or fewer than tasks."""
    groups = options.key_groups
    if groups is None:
        return
    if groups > KEY_GROUPS_MAX:
        raise ConfigError(f"Option keyGroups: {groups} is more than {KEY_GROUPS_MAX}.")
    if options.reducers > groups:
        raise ConfigError(
            f"Option reducers is {options.reducers} and keyGroups is {groups}: a task has one group"
            " at least.",
            hint="Set keyGroups higher, for a new checkpoint, or reducers lower.",
        )


def refuse_options_of_state(options: EngineOptions) -> None:
    """:raises ConfigError: an option is for queries that keep state, and this one does not."""
    default = EngineOptions()
    given = {
        "stateMemoryMaxBytes": options.state_memory_max_bytes != default.state_memory_max_bytes,
        "stateSpillAfterBytes": (
            options.state_spill_after_bytes != default.state_spill_after_bytes
        ),
        "stateScratchFolder": options.state_scratch_folder != default.state_scratch_folder,
        KEYS_STAY_IN_PARTITIONS: options.keys_stay_in_partitions,
    }
    _refuse({**_of_exchanges(options), **given}, "the query keeps no state")


def refuse_options_of_exchanges(options: EngineOptions) -> None:
    """:raises ConfigError: an option is for queries that exchange rows, and this one does not."""
    _refuse(_of_exchanges(options), f"with {KEYS_STAY_IN_PARTITIONS} the query exchanges no rows")


def _of_exchanges(options: EngineOptions) -> dict[str, bool]:
    default = EngineOptions()
    return {
        "reducers": options.reducers != default.reducers,
        "keyGroups": options.key_groups != default.key_groups,
        "partialAggregation": options.partial_aggregation != default.partial_aggregation,
    }


def _refuse(given: Mapping[str, bool], reason: str) -> None:
    for name, is_given in given.items():
        if is_given:
            raise ConfigError(f"Option {name} has no meaning: {reason}.", hint="Leave it out.")


def check_kept_partitions(streams: Iterable[StreamBinding]) -> None:
    """:raises ConfigError: the driver decides which partition reads what of a source, so that no
    key stays in one.

    :param streams: of the query.
    """
    for each in streams:
        if each.pipeline.kept is not None and each.reader.handsOut:
            raise ConfigError(
                f"Option {KEYS_STAY_IN_PARTITIONS} cannot be set for the source "
                f"{each.description}: which of its tasks reads a file is decided when it is found, "
                "so a key may be in any partition.",
                hint="Leave the option out: then the rows are exchanged by their keys.",
            )


def check_idle_streams(options: EngineOptions, pipelines: Iterable[Pipeline], policy: str) -> None:
    """:raises ConfigError: there is no stream that could hold the watermark of others back."""
    after_ms = options.watermark_idle_after_ms
    if after_ms is None:
        return
    if after_ms == 0:
        raise ConfigError(
            "Option watermarkIdleAfter is zero: every stream would be idle.",
            hint='Set it to the longest pause that is usual, e.g. "5 minutes".',
        )
    marks = sum(isinstance(step, Watermark) for each in pipelines for step in each.steps)
    if marks < 2 or policy == MAX:
        reason = f"{_POLICY} is {MAX}" if marks > 1 else f"the query has {marks or 'no'} watermark"
        raise ConfigError(
            f"Option watermarkIdleAfter has no meaning: {reason}, so no stream holds that of "
            "another back.",
            hint="Leave it out. The partitions of one stream never wait for each other: the newest "
            "record of any of them counts.",
        )


def check_late_records(options: EngineOptions, pipelines: Iterable[Pipeline]) -> None:
    """:raises ConfigError: late rows are to be kept, and no row can be late."""
    if options.on_late_record == SKIP:
        return
    steps = [each for pipeline in pipelines for each in pipeline.steps]
    if not any(isinstance(each, StatefulStep) and leaves_out_late_rows(each) for each in steps):
        raise ConfigError(
            f"Option onLateRecord is {options.on_late_record!r}, and no row of this query can be "
            "late: no step keeps state by an event time.",
            hint="Leave it out; or name the event time by withWatermark(), and let the step go by "
            "it: a window of it among the keys of an aggregate, for example. In output mode "
            "complete nothing is late.",
        )


def watermark_policy(spark: SparkSession) -> str:
    """Which of several watermarks the query goes by, ``min`` or ``max``."""
    return str(spark.conf.get(_POLICY)).lower()


def shuffle_partitions(spark: SparkSession) -> int:
    """How many tasks a stage has at most, unless the option ``reducers`` says it."""
    return int(str(spark.conf.get(_PARTITIONS)))
