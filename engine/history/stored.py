"""How a history is stored: gzip of lines of JSON, within a fixed budget::

    {"version":1,"numbers":["epochs",...],"steps":["prepare",...],"last":["<run id>",17]}
    {"at_ms":...,"kind":"restarted","reason":"..."}                                 a mark each
    [60000,1795174620000,1795174679312,[60,...],[12,...],[7,120,11,4],8012]         a point each

A point is its length, start and newest epoch in milliseconds; its numbers in the order of the
header; the milliseconds of each step of the commit; bucket and count of its latencies, and the
largest of these in microseconds. Nothing of it is needed by a restart.

Points of one length are a member of the gzip file. So what is old, and most of it, is seldom
written out and compressed again.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from engine.base.json_text import dump, load, load_object
from engine.errors import CheckpointVersionError
from engine.history.folding import History, Mark, Point
from engine.history.measures import NUMBERS, Measures
from engine.progress.histogram import LatencyHistogram

BUDGET_BYTES: Final = 256 * 1024
"""No history takes more."""
VERSION: Final = 1
_STEPS_MAX: Final = 16
"""The steps of a commit are few; a report with more is none of ours."""
_LEVEL: Final = 6


@dataclass
class StoredHistory:
    """A history, and the newest progress report that is in it.

    :param last: the report's run and epoch; None: there is none.
    :param steps: of commits, in the order in which points have them.
    """

    history: History
    last: tuple[str, int] | None = None
    steps: list[str] = field(default_factory=list)

    def blocks(self) -> list[str]:
        """The lines, in blocks that change at different times. Of the points, only those that have
        changed cost something."""
        points = self.history.by_resolution()
        written = ["".join(map(self._line, each)) for each in points]
        header = {
            "version": VERSION,
            "numbers": list(NUMBERS),
            "steps": self.steps,
            "last": None if self.last is None else list(self.last),
        }
        head = [dump(header), *(dump(asdict(mark)) for mark in self.history.marks)]
        return ["".join(f"{line}\n" for line in head), *written]

    def _line(self, point: Point) -> str:
        if point.line is None:
            measures = point.measures
            for step in measures.steps_ms:
                if step not in self.steps and len(self.steps) < _STEPS_MAX:
                    self.steps.append(step)
            values = [
                point.length_ms,
                point.start_ms,
                measures.at_ms,
                [getattr(measures, name) for name in NUMBERS],
                [measures.steps_ms.get(step) for step in self.steps],
                [number for bucket in sorted(measures.latency.counts.items()) for number in bucket],
                measures.latency.max_us,
            ]
            point.line = f"{dump(values)}\n"
        return point.line


class Packer:
    """Compresses the blocks of one history, again and again: those that have changed."""

    def __init__(self) -> None:
        self._packed: dict[int, tuple[str, bytes]] = {}

    def within_budget(
        self,
        blocks: Callable[[], Sequence[str]],
        narrow: Callable[[], bool],
        budget_bytes: int = BUDGET_BYTES,
    ) -> bytes:
        """The bytes of a history, which is made shorter until they fit.

        :param blocks: see :meth:`StoredHistory.blocks`.
        :param narrow: makes them smaller; whether it could.
        """
        while True:
            data = b"".join(self._member(*each) for each in enumerate(blocks()))
            if len(data) <= budget_bytes:
                return data
            if not narrow():
                raise AssertionError(f"{len(data)} bytes, and nothing to leave out")

    def _member(self, index: int, text: str) -> bytes:
        known = self._packed.get(index)
        if known is None or known[0] != text:
            known = self._packed[index] = text, gzip.compress(text.encode(), _LEVEL, mtime=0)
        return known[1]


def unpack(data: bytes) -> StoredHistory:
    """:raises ValueError: it is damaged.
    :raises CheckpointVersionError: a newer engine has written it.
    """
    try:
        # JSON leaves U+2028 and its like in a text: only \n ends a line.
        first, *lines = gzip.decompress(data).decode().removesuffix("\n").split("\n")
        header = load_object(first)
        if int(header["version"]) > VERSION:
            raise CheckpointVersionError(
                f"The history is of version {header['version']}, and this engine reads {VERSION}.",
                hint="Look at it with the engine that has written it.",
            )
        history = History()
        for line in lines:
            read = load(line)
            if isinstance(read, dict):
                history.marks.append(Mark(**read))
            else:
                history.restore(_point(read, header["numbers"], header["steps"]))
        last = header["last"]
        return StoredHistory(
            history, None if last is None else (str(last[0]), int(last[1])), header["steps"]
        )
    except (OSError, EOFError, zlib.error, LookupError, TypeError) as exc:
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc


def _point(read: list[Any], names: Sequence[str], steps: Sequence[str]) -> Point:
    length_ms, start_ms, at_ms, numbers, durations, latencies, max_us = read
    known = {name: value for name, value in zip(names, numbers, strict=True) if name in NUMBERS}
    measures = Measures(
        at_ms=at_ms,
        **known,
        steps_ms={step: ms for step, ms in zip(steps, durations, strict=False) if ms is not None},
        latency=LatencyHistogram(dict(zip(latencies[::2], latencies[1::2], strict=True)), max_us),
    )
    return Point(start_ms, length_ms, measures)
