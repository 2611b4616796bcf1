"""Who wants a query to end, and how: one request for all its attempts and runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.base.clock import Clock
from engine.coordinator.events import DrainAsked, RunFailed, StopAsked
from engine.errors import ContinuousError

EndEvent = DrainAsked | StopAsked | RunFailed


class EndRequest:
    """Asked for by the user, through the checkpoint, or by what has failed beside the epochs (a
    lost lease). The last word counts, but nothing takes a failure back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._asked: EndEvent | None = None
        self._tell: Callable[[EndEvent], None] | None = None

    def ask(self, event: EndEvent) -> None:
        """From any thread."""
        with self._changed:
            if not isinstance(self._asked, RunFailed):
                self._asked = event
            tell = self._tell
            self._changed.notify_all()
        if tell is not None:
            tell(event)

    @contextmanager
    def telling(self, tell: Callable[[EndEvent], None]) -> Iterator[None]:
        """Inside of the block a run is told at once, also of what was asked before."""
        with self._changed:
            self._tell = tell
            asked = self._asked
        if asked is not None:
            tell(asked)
        try:
            yield
        finally:
            with self._changed:
                self._tell = None

    def wait(self, seconds: float) -> bool:
        """Wait for the request; whether it is there."""
        with self._changed:
            return self._clock.wait_for(self._changed, lambda: self._asked is not None, seconds)

    @property
    def is_asked(self) -> bool:
        """Whether somebody wants the end."""
        return self._asked is not None

    @property
    def is_drain(self) -> bool:
        """Whether it is the end that commits what is open."""
        return isinstance(self._asked, DrainAsked)

    @property
    def error(self) -> ContinuousError | None:
        """Why the query has to end, if that is not because it was asked to."""
        return self._asked.error if isinstance(self._asked, RunFailed) else None
