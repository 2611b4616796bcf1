"""Whether the tasks of a run find their slots, load their state and start, until records flow."""

from __future__ import annotations

from collections.abc import Callable

from engine.base.options import EngineOptions
from engine.base.text_tables import count, have
from engine.coordinator.coordinator import EpochCoordinator, Phase
from engine.errors import TaskLostError
from engine.execution.slots import PLACED_WITHIN_S, PlacementWatch, SlotSupply
from engine.wire.messages import StateLoading


class StartWatch:
    """See the module. To start, tasks have the option ``taskStartTimeoutS``: from when the last of
    them has found a slot, and none loads its state any more. To load it takes as long as it takes;
    a task that dies meanwhile, or is silent, is not waited for anyhow.

    :param supply: where slots come from.
    :param driver: the address that tasks connect to, for people.
    :param launched_s: when the tasks were launched, monotonic.
    """

    def __init__(
        self,
        options: EngineOptions,
        supply: SlotSupply,
        coordinator: EpochCoordinator,
        driver: str,
        launched_s: float,
    ) -> None:
        self._timeout_s = options.task_start_timeout_s
        self._coordinator = coordinator
        self._driver = driver
        limit_s = supply.limit_s(options)
        self._placement = PlacementWatch(coordinator.partitions, limit_s, launched_s)
        self._launched_s = self._since_s = launched_s
        self._loading: set[int] = set()

    def hear(self, message: StateLoading) -> None:
        """A task begins to load its state, or has loaded it."""
        if message.is_over:
            self._loading.discard(message.partition)
        else:
            self._loading.add(message.partition)

    def look(self, now_s: float, unplaced: Callable[[], int]) -> str | None:
        """What is waited for, in words; None if every task has a slot.

        :param unplaced: how many tasks have none; asked when those that find one have found it.
        :raises NotEnoughSlotsError: they have waited for too long.
        :raises TaskLostError: some have not started in time.
        """
        waiting = None
        if now_s - self._launched_s > PLACED_WITHIN_S:
            waiting = self._placement.look(now_s, unplaced())
        if self._loading:
            self._since_s = now_s
        if now_s - max(self._since_s, self._placement.placed_s) > self._timeout_s:
            raise self._too_late()
        return waiting

    def _too_late(self) -> TaskLostError:
        coordinator, wanted = self._coordinator, self._coordinator.partitions
        if coordinator.phase is Phase.WIRING:
            return TaskLostError(
                f"Only {len(coordinator.wired)} of {count(wanted, 'task')} {have(wanted)} reached "
                f"those that they send rows to within {self._timeout_s:g} s.",
                hint="Executors have to reach one another on any port.",
            )
        return TaskLostError(
            f"Only {len(coordinator.started)} of {count(wanted, 'task')} {have(wanted)} started "
            f"within {self._timeout_s:g} s.",
            hint=f"The query needs {count(wanted, 'free task slot')}, and executors that reach "
            f"{self._driver}.",
        )
