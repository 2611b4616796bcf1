"""Where a source ends by now, asked without Spark: for who waits until all of it is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from engine.base.connector_options import Options
from engine.base.locations import local_path
from engine.base.text_tables import count
from engine.clients.kafka import import_client
from engine.errors import ConfigError
from engine.sources.kafka.offsets import offset_of
from engine.sources.kafka.options import OWNER, source_options
from engine.sources.kafka.topics import KafkaTopics, consumer_settings
from engine.sources.offset_order import distance
from engine.sources.tail.ends import latest_offset as tail_end
from engine.sources.tail.name_filter import name_filter
from engine.sources.tail.watched_folder import Folder


def _kafka(given: Mapping[str, str]) -> Any:
    options = source_options(given)
    import_client(OWNER)
    topics = KafkaTopics(consumer_settings(options.client), options.subscription)
    try:
        return offset_of(topics.latest(topics.partitions()).items())
    finally:
        topics.close()


def _tail(given: Mapping[str, str]) -> Any:
    options = Options("source tail", given)
    path = local_path(options.required("path", example="/data/in"), "source tail")
    if not path.is_dir():
        raise ConfigError(
            f"Source tail: {path} is not a folder here.",
            hint="Whoever waits must see the folder that the query reads.",
        )
    return tail_end(Folder(path, name_filter(options)), {})


ASKABLE: Final[dict[str, Callable[[Mapping[str, str]], Any]]] = {"kafka": _kafka, "tail": _tail}
"""Format → what asks it."""


def latest_offset(source: Mapping[str, Any]) -> Any:
    """The offset behind everything that is in a source now.

    :param source: ``format`` and ``options``, as in a query's specification.
    :raises ConfigError: a source of this format cannot be asked, its options are wrong, or its
        client is not installed.
    :raises SourceError: it cannot be reached.
    """
    name = str(source.get("format", "")).lower()
    ask = ASKABLE.get(name)
    if ask is None:
        raise ConfigError(
            f"A source of format {name!r} cannot be asked where it ends.",
            hint=f"These can: {', '.join(ASKABLE)}. For others, give the offsets, or a function "
            "that returns them.",
        )
    options = {key: str(value) for key, value in (source.get("options") or {}).items()}
    return ask(options)


def lag(committed: Sequence[Any], sources: Sequence[Mapping[str, Any] | None]) -> int:
    """How far a query is behind the ends of its sources, altogether; bytes of a ``tail`` source.

    :param committed: one offset per source, as a checkpoint has them; empty before the first epoch.
    :param sources: as for :func:`latest_offset`; None for one that does not matter.
    :raises ConfigError: there are more or fewer sources than offsets; else as
        :func:`latest_offset`.
    :raises SourceError: a source cannot be reached.
    """
    offsets = list(committed) or [None] * len(sources)
    if len(offsets) != len(sources):
        raise ConfigError(
            f"The query has {count(len(offsets), 'source')}, and source names {len(sources)}.",
            hint="Give a list with one entry per source, null for one that does not matter.",
        )
    return sum(
        distance(got, latest_offset(source))
        for got, source in zip(offsets, sources, strict=True)
        if source is not None
    )
