"""Task slots: a query needs one per task, all at once, and waits for those that may come.

On a cluster an executor that has died is replaced, and more may be added: that takes seconds, or
the minutes of a machine that has to be started. A query that waits is WAITING, and uses up no
budget for restarts. ``local[N]`` has what it has: only those that are busy just now can come. When
the time is over, the query does with what is free if it can (:meth:`TaskSharing.squeeze
<engine.execution.sharing.TaskSharing.squeeze>`).

Slots are counted before the tasks are launched. That count can be wrong, and there is none where
Spark asks for executors only when tasks wait (dynamic allocation); so launched tasks are watched
until each has found its slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.base.clock import Clock
from engine.base.options import EngineOptions
from engine.base.text_tables import count, have
from engine.errors import NotEnoughSlotsError

_POLL_S, _POLL_MAX_S = 0.02, 0.5
PLACED_WITHIN_S = 1.0
"""Tasks that find slots have found them by then."""
_HINT = (
    "Stop other jobs, or add cores (spark.master local[N], or more executors). Partitions share "
    "what is free unless the option partitionsPerTask is set; slotsToKeepFree says how many slots "
    "the query leaves to other jobs, and slotTimeout for how long it waits."
)


@dataclass(frozen=True)
class Slots:
    """Task slots of the cluster: ``free`` of ``total`` have nothing to do now."""

    total: int
    free: int


@dataclass(frozen=True)
class Demand:
    """The slots that a query needs: one for each of its tasks, and those that it keeps free.

    :param parts: which tasks those are, if there are several kinds, e.g. ``stage 1: 4``.
    """

    tasks: int
    spare: int = 0
    parts: tuple[str, ...] = ()

    @property
    def slots(self) -> int:
        """All of them."""
        return self.tasks + self.spare

    def __str__(self) -> str:
        tasks = f"has {count(self.tasks, 'task')}{self._parts}"
        if not self.spare:
            needs = "a free task slot" if self.tasks == 1 else "as many free task slots"
            return f"{tasks} and needs {needs}"
        spare = f"keeps {count(self.spare, 'slot')} free for other jobs"
        return f"{tasks}, {spare} and needs {count(self.slots, 'free task slot')}"

    @property
    def needed(self) -> str:
        """``4 (stage 1: 4), and 5 free task slots are needed``: behind the word Tasks."""
        are = "is" if self.slots == 1 else "are"
        return (
            f"{self.tasks:,}{self._parts}, and {count(self.slots, 'free task slot')} {are} needed"
        )

    @property
    def _parts(self) -> str:
        return f" ({', '.join(self.parts)})" if self.parts else ""


@dataclass(frozen=True)
class SlotSupply:
    """Where slots come from.

    :param grows: there may be more than now, for example when an executor was replaced.
    :param timeout_s: how long that may take, unless the option ``slotTimeout`` says it.
    """

    grows: bool
    timeout_s: float

    def limit_s(self, options: EngineOptions) -> float:
        """For how long a query waits."""
        given_ms = options.slot_timeout_ms
        return self.timeout_s if given_ms is None else given_ms / 1000


LOCAL = SlotSupply(grows=False, timeout_s=15.0)
CLUSTER = SlotSupply(grows=True, timeout_s=300.0)
KUBERNETES = SlotSupply(grows=True, timeout_s=600.0)


def supply_of(master: str) -> SlotSupply:
    """:param master: as in ``spark.master``."""
    if master.startswith("k8s://"):
        return KUBERNETES
    is_cluster = not master.startswith("local") or master.startswith("local-cluster")
    return CLUSTER if is_cluster else LOCAL


def await_slots(
    demand: Demand,
    count: Callable[[], Slots | None],
    *,
    grows: bool,
    limit_s: float,
    clock: Clock,
    pause: Callable[[float], bool],
    say: Callable[[str | None], None],
) -> None:
    """Return when there are enough free slots, or nobody wants them any more.

    :param count: the slots now; None where nothing limits them.
    :param grows: as of :class:`SlotSupply`.
    :param pause: waits so many seconds; whether to go on.
    :param say: hears what is waited for, in words, and None when it is there.
    :raises NotEnoughSlotsError: they did not come in time, or cannot.
    """
    needed = demand.slots
    deadline_s = clock.monotonic_s() + limit_s
    said: str | None = None
    poll_s = _POLL_S
    while True:
        slots = count()
        if slots is None or slots.free >= needed:
            if said is not None:
                say(None)
            return
        now_s = clock.monotonic_s()
        if (slots.total < needed and not grows) or now_s >= deadline_s:
            waited = f", after {limit_s:g} s" if now_s >= deadline_s else ""
            raise NotEnoughSlotsError(
                f"The query {demand}, but {slots.free} of the {slots.total} slots are "
                f"free{waited}.",
                hint=_HINT,
                free=slots.free,
            )
        text = _waiting_for(needed - slots.free, needed)
        if text != said:
            said = text
            say(text)
        if not pause(min(poll_s, deadline_s - now_s)):
            return
        poll_s = min(2 * poll_s, _POLL_MAX_S)


class PlacementWatch:
    """Whether launched tasks find slots.

    :param needed: how many tasks there are.
    :param limit_s: for how long they may wait.
    :param launched_s: when they were launched, monotonic.
    :ivar placed_s: when the last one had found its slot, as far as known.
    """

    def __init__(self, needed: int, limit_s: float, launched_s: float) -> None:
        self._needed = needed
        self._limit_s = limit_s
        self._launched_s = launched_s
        self.placed_s = launched_s

    def look(self, now_s: float, unplaced: int) -> str | None:
        """What is waited for, in words; None if every task has a slot.

        :param unplaced: how many tasks have none.
        :raises NotEnoughSlotsError: they have waited for too long.
        """
        if not unplaced:
            return None
        self.placed_s = now_s
        if now_s - self._launched_s >= self._limit_s:
            raise NotEnoughSlotsError(
                f"{unplaced} of the query's {count(self._needed, 'task')} {have(self._needed)} "
                f"found no free slot within {self._limit_s:g} s.",
                hint=_HINT,
                free=self._needed - unplaced,
            )
        return _waiting_for(unplaced, self._needed)


def _waiting_for(missing: int, needed: int) -> str:
    return f"Waiting for {missing} of {count(needed, 'task slot')}"
