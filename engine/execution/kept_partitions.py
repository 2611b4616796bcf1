"""State that is kept by the partitions of a source goes on only with the same partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from engine.base.options import KEYS_STAY_IN_PARTITIONS
from engine.checkpoint.epoch_state import EpochState
from engine.errors import ConfigError
from engine.exchange.key_groups import KEY_GROUPS_MAX
from engine.execution.definition import QueryDefinition
from engine.execution.shares import names_of

_SHOWN_MAX: Final = 5


def with_partitions(
    definition: QueryDefinition, found: Sequence[Sequence[Any]], state: EpochState
) -> EpochState:
    """The state, with the names of the partitions of each stream whose tasks keep some.

    :param found: the partitions of each stream.
    :param state: behind the last committed epoch. Where no task has kept anything so far, of a
        topic that was not there yet for example, any partitions will do.
    :raises ConfigError: they are others than those of the state.
    """
    names = {stream: names_of(stream, found[stream]) for stream in definition.kept_by_partition}
    if state.key_groups is not None and state.partitions.keys() != names.keys():
        raise ConfigError(
            f"The state in {definition.checkpoint.url} was kept with another option "
            f"{KEYS_STAY_IN_PARTITIONS}: where its keys are nobody knows now.",
            hint="Set the option as it was, or start the query with a checkpoint of its own.",
        )
    handles = state.handles
    for stream, before in state.partitions.items():
        if names[stream] == before:
            continue
        if any(each.file is not None for each in handles if each.stage == stream):
            raise _changed(definition, stream, before, names[stream])
        handles = tuple(each for each in handles if each.stage != stream)
    for stream, each in names.items():
        if len(each) > KEY_GROUPS_MAX:
            raise ConfigError(
                f"The source {definition.streams[stream].description} has {len(each)} partitions, "
                f"and with {KEYS_STAY_IN_PARTITIONS} it may have {KEY_GROUPS_MAX}.",
                hint="Leave the option out: then the rows are exchanged by their keys.",
            )
    return replace(state, handles=handles, partitions=names)


def _changed(
    definition: QueryDefinition, stream: int, before: Sequence[str], now: Sequence[str]
) -> ConfigError:
    gone = [name for name in before if name not in set(now)]
    new = [name for name in now if name not in set(before)]
    parts = [
        f"{what} {', '.join(names[:_SHOWN_MAX])}{' ...' * (len(names) > _SHOWN_MAX)}"
        for what, names in (("without", gone), ("with", new))
        if names
    ]
    return ConfigError(
        f"The source {definition.streams[stream].description} has other partitions than the state "
        f"in {definition.checkpoint.url}: {len(now)} in place of {len(before)}, "
        f"{' and '.join(parts) or 'in another order'}. With {KEYS_STAY_IN_PARTITIONS} the state of "
        "a key is where its partition is read, and its rows may be in another one now.",
        hint="Start the query with a checkpoint of its own; without the option it goes on with any "
        "partitions.",
    )
