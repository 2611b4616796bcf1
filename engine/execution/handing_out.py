"""Has what sources find on the driver handed out to the tasks that read it.

One thread per source, for one run: a folder that takes its time to be listed, or hangs, keeps
neither epochs nor their end waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from engine.errors import ContinuousError, SourceError
from engine.execution.definition import StreamBinding
from engine.sources.contract import HandingOut, Offset

WAIT_S: Final = 0.2
"""The end of a run is noticed so soon."""
HANGS_AFTER_S: Final = 1.0
"""A look that takes longer is not waited for at the end."""


class SourceHandingOut:
    """See the module.

    :param finds: the source's own.
    :param send: gets what was found, by the partition's number in the source.
    :param on_error: the source could not be looked at; nothing more is handed out.
    """

    def __init__(
        self,
        finds: HandingOut,
        send: Callable[[Mapping[int, Any]], None],
        on_error: Callable[[ContinuousError], None],
    ) -> None:
        self._finds, self._send, self._on_error = finds, send, on_error
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source-finds", daemon=True)

    def start(self) -> None:
        """Begin: all tasks have started."""
        self._thread.start()

    def stop(self) -> None:
        """Hand out nothing more. Does not wait."""
        self._stopped.set()

    def await_stopped(self) -> None:
        """After :meth:`stop`: it looks no more, unless the source hangs."""
        if self._thread.ident is not None:
            self._thread.join(HANGS_AFTER_S)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                found = self._finds.next(WAIT_S)
                if found and not self._stopped.is_set():
                    self._send(found)
        except Exception as exc:
            if not self._stopped.is_set():
                self._on_error(_as_source_error(exc))


def handings_out(
    streams: Sequence[StreamBinding], starts: Sequence[Offset], until: Sequence[Offset] | None
) -> dict[int, HandingOut]:
    """What sources find for their partitions, by stream.

    :param starts: where each stream goes on, or begins.
    :param until: where each ends; None: that is open.
    """
    found = (
        stream.reader.handingOut(start, end)
        for stream, start, end in zip(streams, starts, until or [None] * len(streams), strict=True)
    )
    return {index: finds for index, finds in enumerate(found) if finds is not None}


def _as_source_error(error: Exception) -> ContinuousError:
    if isinstance(error, ContinuousError):
        return error
    found = SourceError(f"The source cannot be looked at: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found
