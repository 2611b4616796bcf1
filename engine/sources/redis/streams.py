"""What is asked of Redis about streams, for driver and tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from engine.clients.redis import RedisServer
from engine.errors import OffsetOutOfRangeError, SourceError, SourceUnavailableError
from engine.sources.redis.entry_ids import START, EntryId, before, behind, parse_id, shown
from engine.sources.redis.rows import Entry

logger: Final = logging.getLogger(__name__)
SPEAKING: Final = {"away": SourceUnavailableError, "refused": SourceError}


class Streams:
    """Streams of a server, over one connection, which is made when it is needed.

    :param fails_on_loss: entries that are gone before they were read are an error.
    """

    def __init__(self, server: RedisServer, *, fails_on_loss: bool) -> None:
        self._server, self._fails_on_loss = server, fails_on_loss
        self._client: Any = server.connect()
        for command in ("XREAD", "XRANGE", "XREVRANGE"):  # a dict would hide a second field's name
            self._client.response_callbacks.pop(command, None)
        self._told: set[str] = set()

    def newer(
        self, positions: Mapping[str, EntryId], count: int, wait_s: float
    ) -> list[tuple[str, list[Entry]]]:
        """Up to ``count`` entries of each stream from its position on, of those that have any.

        :param wait_s: for how long, if none has.
        """
        last = {stream: shown(before(position)) for stream, position in positions.items()}
        wait_ms = max(1, round(wait_s * 1_000)) if wait_s > 0 else None
        with self._server.speaking("cannot be read", **SPEAKING):
            found = self._client.execute_command(
                "XREAD", "COUNT", count, *(() if wait_ms is None else ("BLOCK", wait_ms)),
                "STREAMS", *last, *last.values(),
            )  # fmt: skip
        return [(name.decode(), _entries(raw)) for name, raw in found or ()]

    def between(self, stream: str, start: EntryId, end: EntryId, count: int) -> list[Entry]:
        """Up to ``count`` entries from ``start`` on, before ``end``."""
        return self._range(stream, shown(start), f"({shown(end)}", count)

    def end(self, stream: str) -> EntryId:
        """The position behind the last entry that there ever was; ``0-0`` if there was none."""
        return self.ends([stream])[stream]

    def ends(self, streams: Iterable[str]) -> dict[str, EntryId]:
        """The same of several."""
        return {name: _end(info) for name, info in self._told_of(streams).items()}

    def lasts(self, streams: Iterable[str]) -> dict[str, EntryId]:
        """The position behind the last entry that is there; ``0-0`` if there is none."""
        return {name: _last(info) for name, info in self._told_of(streams).items()}

    def _told_of(self, streams: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """What Redis tells of each; nothing of one that is not there."""
        names = list(streams)
        with self._server.speaking("cannot be asked", **SPEAKING):
            pipeline = self._client.pipeline(transaction=False)
            for name in names:
                pipeline.xinfo_stream(name)
            answers = pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and "no such key" not in str(answer):
                    raise answer
        return {
            name: {} if isinstance(answer, Exception) else answer
            for name, answer in zip(names, answers, strict=True)
        }

    def position_of(self, stream: str, wanted: EntryId) -> EntryId:
        """A position from which the same is read as from an id: one behind an entry, or the
        start."""
        with self._server.speaking("cannot be asked", **SPEAKING):
            found = self._client.execute_command(
                "XREVRANGE", stream, f"({shown(wanted)}", "-", "COUNT", 1
            )
        return behind(_entries(found)[0][0]) if found else START

    def check(self, stream: str, position: EntryId) -> EntryId:
        """See that nothing behind a position is gone: of a stream that is trimmed, the entry before
        it goes first. Where to go on: there, or with what is left.

        :raises OffsetOutOfRangeError: entries may be gone, and that is an error.
        """
        last = shown(before(position))
        if position == START or self._range(stream, last, last, 1):
            return position
        end = self.end(stream)
        if end == position:
            return position
        if end < position:
            self._say_gone(
                stream,
                f"it ends before {shown(position)}, where the query stands: it was made anew, or "
                "Redis has lost what was newest",
                goes_on="all that is in it is read, what was read before as well",
            )
            return START
        self._say_gone(
            stream,
            f"the entry that was read last, {last}, is gone, and later ones may be",
        )
        return position

    def _say_gone(self, stream: str, what: str, goes_on: str = "the query goes on") -> None:
        told = f"{self._server.name}: the stream {stream} cannot be read on: {what}."
        if self._fails_on_loss:
            raise OffsetOutOfRangeError(
                told,
                hint="It is trimmed to fewer entries than the query is behind, or was deleted. Let "
                "it be longer (MAXLEN, MINID). To go on with what is left, set failOnDataLoss to "
                "false.",
            )
        if stream not in self._told:  # once: whoever deletes what is read does so all the time
            self._told.add(stream)
            logger.warning("%s failOnDataLoss is false: %s", told, goes_on)

    def _range(self, stream: str, start: str, end: str, count: int) -> list[Entry]:
        with self._server.speaking("cannot be read", **SPEAKING):
            found = self._client.execute_command("XRANGE", stream, start, end, "COUNT", count)
        return _entries(found)

    def close(self) -> None:
        self._client.close()


def _end(info: Mapping[str, Any]) -> EntryId:
    last = parse_id(info["last-generated-id"].decode()) if info else START
    return START if last == START else behind(last)


def _last(info: Mapping[str, Any]) -> EntryId:
    found = info.get("last-entry")
    return behind(parse_id(found[0].decode())) if found else START


def _entries(found: Any) -> list[Entry]:
    return [(parse_id(entry.decode()), content) for entry, content in found or ()]
