"""How often a query whose process has died is started again, and after which pause.

The engine restarts a query in place by itself; this is for what it cannot mend: a process that is
gone, or that has given up. The pause doubles with each restart, and a query that has run for long
enough since the last one starts counting anew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_continuous.tasks.memory import TaskMemory

_NAME = "restarts"


@dataclass(frozen=True)
class ProcessRestarts:
    """What one task may restart, remembered through its retries.

    :param restarts_max: how many restarts are granted; None: any number.
    :param delay_s: the pause before the first one; ``delay_max_s`` is the longest.
    :param reset_after_s: a query that has run for so long since starts counting anew.
    """

    memory: TaskMemory
    restarts_max: int | None
    delay_s: float
    delay_max_s: float
    reset_after_s: float

    def next_delay_s(self) -> float:
        """Return the pause before the next restart; 0 if none is granted."""
        used = self._used()
        if self.restarts_max is not None and used >= self.restarts_max:
            return 0.0
        return float(min(self.delay_s * 2.0 ** min(used, 64), self.delay_max_s))

    def grant(self) -> bool:
        """Count one more restart, now; tell whether it is granted."""
        used = self._used()
        if self.restarts_max is not None and used >= self.restarts_max:
            return False
        total = self.total() + 1
        self.memory.remember(_NAME, {"used": used + 1, "at": time.time(), "total": total})
        return True

    def total(self) -> int:
        """Return how many restarts this task has made."""
        return int((self.memory.recall(_NAME) or {}).get("total", 0))

    def _used(self) -> int:
        counted = self.memory.recall(_NAME)
        if counted is None or time.time() - counted["at"] >= self.reset_after_s:
            return 0
        return int(counted["used"])
