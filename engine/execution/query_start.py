"""What all attempts and runs of one start of a query share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Protocol

from engine.base.clock import Clock
from engine.execution.ending import EndRequest
from engine.execution.launcher import Launcher, LeavingTasks
from engine.execution.run_listener import RunListener
from engine.execution.sharing import TaskSharing
from engine.execution.wanted_epochs import WantedEpochs


class StartListener(RunListener, Protocol):
    """Hears how the attempts go."""

    def on_recovered(self, committed_epoch: int) -> None:
        """What an earlier run has prepared is committed; epochs go on behind this one."""

    def look(self) -> Mapping[str, Any]:
        """What the lease says with each heartbeat."""


@dataclass(frozen=True)
class QueryStart:
    """One start of a query.

    :param run_id: all its attempts have the same.
    :param listener: hears how the attempts and their epochs go.
    :param ending: who wants the end.
    :param wanted: which epochs somebody waits for.
    :param leaving: takes up the tasks that are still there when a run has ended.
    :param news: set when there is something new to say in the lease.
    :param asking: held while the sources are asked whether their partitions have changed.
    """

    query_id: str
    run_id: str
    launcher: Launcher
    clock: Clock
    listener: StartListener
    sharing: TaskSharing
    ending: EndRequest
    wanted: WantedEpochs
    leaving: LeavingTasks = field(default_factory=LeavingTasks)
    news: Event = field(default_factory=Event)
    asking: Lock = field(default_factory=Lock)
