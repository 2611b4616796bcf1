"""Keeps a running query's lease alive, and hears what is asked of it through the checkpoint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from engine.base.clock import Clock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator.events import DrainAsked, RunFailed, StopAsked
from engine.errors import CheckpointError, ContinuousError
from engine.redaction.logs import log_failure

logger = logging.getLogger(__name__)


class LeaseKeeper:
    """A thread that renews the lease and looks for requests, once per heartbeat interval, or up to
    twice as often if there are news.

    :param tell: gets DrainAsked, StopAsked, or RunFailed when the lease is lost.
    :param rescale: called when another number of tasks is asked for. It forgets the request: the
        run goes on, and with it whoever may ask.
    :param news: set by others when there is something new to say.
    """

    def __init__(
        self,
        lease: Lease,
        checkpoint: Checkpoint,
        tell: Callable[[DrainAsked | StopAsked | RunFailed], None],
        clock: Clock,
        rescale: Callable[[], None] = lambda: None,
        news: threading.Event | None = None,
    ) -> None:
        self._rescale = rescale
        self._lease = lease
        self._checkpoint = checkpoint
        self._tell = tell
        self._clock = clock
        self._stopped = threading.Event()
        self._news = news or threading.Event()
        self._thread: threading.Thread | None = None
        self._asked: str | None = None

    def start(self, look: Callable[[], Mapping[str, Any]]) -> None:
        """:param look: what to say with each heartbeat: fields of the lease's record."""
        self._thread = threading.Thread(
            target=self._keep, args=(look,), name="lease-keeper", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; afterwards nobody but the caller writes the lease."""
        self._stopped.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _keep(self, look: Callable[[], Mapping[str, Any]]) -> None:
        interval_s = self._lease.heartbeat_interval_ms / 1000
        while True:
            try:
                self._hear(self._lease.heartbeat(**look()))
            except CheckpointError as exc:
                # Storage may recover before the lease expires; Lease.check() stops us if not.
                logger.warning("the lease was not renewed: %s", exc)
            except ContinuousError as exc:
                self._tell(RunFailed(exc))
                return
            except Exception:
                log_failure(logger, "the lease was not renewed")
            if self._stopped.wait(interval_s / 2) or self._are_news_the_end(interval_s / 2):
                return

    def _are_news_the_end(self, seconds: float) -> bool:
        """Wait for news, but no longer than this."""
        self._news.wait(seconds)
        self._news.clear()
        return self._stopped.is_set()

    def _hear(self, present: Collection[str]) -> None:
        kind = self._checkpoint.requests.pending(self._lease.run_id, present)
        if kind == self._asked or kind is None:
            return
        logger.info("%s was asked for through the checkpoint", kind)
        if kind == "rescale":
            self._rescale()
        else:
            self._asked = kind
            self._tell(StopAsked() if kind == "stop" else DrainAsked())
