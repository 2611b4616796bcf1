"""The executor's side of a polled source: a thread that polls and reads, and what it has ready.

All calls of the user's reader are made on that thread, one after the other, as Spark makes them. So
a call that takes its time, or hangs, keeps neither epochs nor their end waiting.

A range of the stream has an offset at its end alone, so an epoch that holds some of it must hold it
all. Until a range is read whole nothing of it is handed on, unless it is large, see
:data:`HELD_BYTES`: then its batches pass as they come, and the epoch is as long as it takes to read
the rest. The next range is asked for when the one before is handed on.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import monotonic
from typing import Final, NamedTuple

import pyarrow as pa

from engine.errors import BadRecordError
from engine.redaction.logs import log_failure
from engine.sources.contract import Offset, PartitionReader
from engine.sources.polled.batches import BatchMaker
from engine.sources.polled.stream_readers import Range, StreamReader

logger = logging.getLogger(__name__)
HELD_BYTES: Final = 32 << 20
"""So much of a range is held back until it is whole, and so much is read ahead of the sink."""
BAD_BYTES: Final = 1_000
"""What an error takes besides its record."""
BACK_OFF: Final = 10
"""While nothing comes the pauses grow to so many intervals."""
PAUSE_MIN_S: Final = 0.01
"""The shortest pause when nothing has come; Spark's pollingDelay."""
CLOSE_WAIT_S: Final = 2.0
"""A call that takes longer is not waited for at the end."""
LATE_AFTER_S: Final = 60.0
"""A call that takes longer is told meanwhile."""


class _Piece(NamedTuple):
    """:param end: of the range that it is of; ``is_last`` of it, which may have no content."""

    content: pa.RecordBatch | BadRecordError | None
    end: Offset
    is_last: bool

    @property
    def size(self) -> int:
        content = self.content
        if isinstance(content, BadRecordError):
            return BAD_BYTES + len(content.record or "")
        return 0 if content is None else content.nbytes


class _Stopped(Exception):
    pass


class PolledPartitionReader(PartitionReader):
    """Reads the whole stream.

    :param source: names it in logs.
    :param interval_s: from the beginning of one poll to that of the next, if there are records.
    """

    interruptible = True

    def __init__(
        self,
        source: str,
        reader: StreamReader,
        batches: BatchMaker,
        start: Offset,
        until: Offset | None,
        interval_s: float,
    ) -> None:
        self._source, self._reader, self._batches = source, reader, batches
        self._offset, self._until = start, until
        self._interval_s = interval_s
        self._midway = False
        # The rest is shared with the thread.
        self._changed = threading.Condition()
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0
        self._whole = 0
        """So many ranges are there to their ends."""
        self._error: BaseException | None = None
        self._interrupted = self._stopped = False
        self._to_commit: Offset | None = None
        self._told_s: float | None = None
        """The call of then was told to be late."""
        self._thread = threading.Thread(target=self._run, name="source-poll", daemon=True)

    # -- on the task's thread -------------------------------------------------------------------

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        if self._thread.ident is None:
            self._thread.start()
        deadline_s = monotonic() + timeout_s
        while (piece := self._next_piece(deadline_s - monotonic())) is not None:
            if isinstance(piece.content, BadRecordError):
                if self.on_bad_record is None:
                    raise piece.content
                self.on_bad_record(piece.content)
                return None
            if piece.content is not None:
                return piece.content
        self._say_if_late()
        return None

    def _next_piece(self, timeout_s: float) -> _Piece | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_ready or self._interrupted or self.exhausted, timeout_s
            )
            if self._interrupted or not self._is_ready:
                self._interrupted = False
                return None
            if not self._may_pass:
                assert self._error is not None
                raise self._error
            piece = self._pieces.popleft()
            self._bytes -= piece.size
            self._whole -= piece.is_last
            self._offset, self._midway = piece.end, not piece.is_last
            self._changed.notify_all()
            return piece

    @property
    def _is_ready(self) -> bool:
        return self._may_pass or self._error is not None

    @property
    def _may_pass(self) -> bool:
        """Whether the first piece, if there is one, may be handed on."""
        is_begun = self._midway or self._until is not None
        return bool(self._pieces) and bool(self._whole or is_begun or self._bytes >= HELD_BYTES)

    def _say_if_late(self) -> None:
        called_s = self._reader.called_s
        if called_s in (None, self._told_s):
            return
        if monotonic() - called_s > LATE_AFTER_S:
            self._told_s = called_s
            logger.warning(
                "%s has not returned for %g s: nothing of it is read meanwhile",
                self._source,
                LATE_AFTER_S,
            )

    @property
    def offset(self) -> Offset:
        return self._offset

    @property
    def has_more(self) -> bool:
        return bool(self._pieces)

    @property
    def midway(self) -> bool:
        return self._midway

    @property
    def exhausted(self) -> bool:
        return self._until is not None and self._offset == self._until and not self._midway

    def committed(self, end: Offset) -> None:
        with self._changed:
            self._to_commit = end
            self._changed.notify_all()

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.ident is None:
            self._reader.stop()
            return
        self._thread.join(CLOSE_WAIT_S)
        if self._thread.is_alive():
            logger.warning("%s does not return: it is left behind", self._source)

    # -- on its own -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._until is None:
                self._poll(self._offset)
            elif self._until != self._offset:
                self._gather(self._reader.between(self._offset, self._until))
        except _Stopped:
            pass
        except (
            BaseException
        ) as exc:  # SystemExit of the user's code, too: nobody else would hear it
            self._fail(exc)
        try:
            self._wait(None)  # the last commit is told before the end
        except _Stopped:
            pass
        except Exception:
            log_failure(logger, "the last commit of %s failed", self._source)
        try:
            self._reader.stop()
        except Exception:
            log_failure(logger, "%s did not stop cleanly", self._source)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _poll(self, start: Offset) -> None:
        """Ask for range after range, for as long as the task lives."""
        idle_s = max(self._interval_s, PAUSE_MIN_S)
        pause_s = idle_s
        while True:
            began_s = monotonic()
            found = self._reader.poll(start)
            if found is None:
                due_s, pause_s = began_s + pause_s, min(2 * pause_s, BACK_OFF * idle_s)
            else:
                self._gather(found)
                start, pause_s = found.end, idle_s
                due_s = began_s + self._interval_s
            self._wait(due_s)

    def _gather(self, found: Range) -> None:
        """Have the range handed on; its last piece is known to be the last."""
        last: pa.RecordBatch | BadRecordError | None = None
        for content in self._batches.batches(found):
            if last is not None:
                self._put(_Piece(last, found.end, is_last=False))
            last = content
        self._put(_Piece(last, found.end, is_last=True))

    def _put(self, piece: _Piece) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._bytes < HELD_BYTES)
            if self._stopped:
                raise _Stopped
            self._pieces.append(piece)
            self._bytes += piece.size
            self._whole += piece.is_last
            self._changed.notify_all()

    def _wait(self, due_s: float | None) -> None:
        """Until the next poll is due and the last range handed on, or for the end; and commit.

        :param due_s: monotonic; None: there is no further poll.
        """
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._stopped or self._to_commit is not None or self._is_free(due_s),
                    None if due_s is None else max(0.0, due_s - monotonic()) or None,
                )
                end, self._to_commit = self._to_commit, None
                if end is None and self._stopped:
                    raise _Stopped
                if end is None and self._is_free(due_s):
                    return
            if end is not None:
                self._reader.commit(end)

    def _is_free(self, due_s: float | None) -> bool:
        return due_s is not None and monotonic() >= due_s and self._whole == 0
