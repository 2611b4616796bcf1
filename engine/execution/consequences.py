"""Tasks that fail because another one has: why the run ends is for that one to say.

A task that fails closes its connections to the others before the driver has heard of it, for it
first ends its source and its sink. What the others say of that would be called a lost task, and
restarted as one, whatever the cause.
"""

from __future__ import annotations

from typing import Final

from engine.base.clock import Clock
from engine.coordinator.events import Event, TaskLost
from engine.errors import PeerLostError
from engine.wire.messages import TaskFailed

CAUSE_WITHIN_S: Final = 5.0
"""So long the driver waits for the cause. A process that was killed is missed at once."""


class Consequences:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: set[int] = set()
        """The tasks that have failed so: that they are gone then is no news."""
        self._kept: TaskFailed | None = None
        self._told: TaskFailed | None = None
        self._due_s = 0.0

    def keeps(self, event: Event) -> bool:
        """Whether this is the failure of a task that misses another: it is :meth:`due` later."""
        if isinstance(event, TaskLost) and event.partition in self._left:
            return True
        if not isinstance(event, TaskFailed) or not isinstance(event.error, PeerLostError):
            return False
        if event is self._told:
            return False
        self._left.add(event.partition)
        if self._kept is None:
            self._kept, self._due_s = event, self._clock.monotonic_s() + CAUSE_WITHIN_S
        return True

    def due(self) -> TaskFailed | None:
        """The first such failure, once, when no cause has been told in time."""
        if self._kept is None or self._clock.monotonic_s() < self._due_s:
            return None
        self._told, self._kept = self._kept, None
        return self._told
