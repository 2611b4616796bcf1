"""Scenarios: DAGs that epochs start, as events of an asset."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.local_airflow.rest import wait_for
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow_faults.case import Case, Scenario
from tests.airflow_faults.query import WAIT_S
from tests.airflow_faults.world import World


def triggerer_killed(case: Case) -> None:
    """While epochs commit, and some of their events are on their way."""
    world = case.world
    query = Committing(LiveCheckpoint(world.folder / "followed"))
    query.commit()
    world.airflow.watch_assets("follow")
    wait_for(lambda: told(world) == [0], WAIT_S, "a run for the first epoch")
    with query.keeps_committing():
        wait_for(lambda: world.airflow.asset_event_count() > 3, WAIT_S, "events")
        world.processes.kill("triggerer")
        gone = query.next_epoch
        wait_for(lambda: query.next_epoch > gone + 5, WAIT_S, "epochs without a triggerer")
        world.processes.launch("triggerer")
        wait_for(lambda: world.airflow.asset_event_count() > gone + 6, WAIT_S, "their events")
    last = query.next_epoch

    def has_come() -> bool:
        """Airflow gives events that come while a run is queued to the next run, which one more
        event brings."""
        query.commit()
        return last in told(world)

    wait_for(has_come, WAIT_S, "runs for all events", every_s=5)
    case.promise_each_once(told(world))
    world.airflow.pause("follow")
    case.outcome.task = "success"
    case.settle(queries=0)


class Committing:
    """:param live: the checkpoint that it commits to."""

    def __init__(self, live: LiveCheckpoint) -> None:
        self.next_epoch = 0
        self._live = live
        live.hold()

    def commit(self) -> None:
        """Commit the next epoch."""
        self._live.commit(self.next_epoch)
        self.next_epoch += 1

    @contextmanager
    def keeps_committing(self) -> Iterator[None]:
        """Two epochs a second, until the end of the block."""
        ended = threading.Event()

        def go_on() -> None:
            while not ended.wait(0.5):
                self.commit()

        committing = threading.Thread(target=go_on)
        committing.start()
        try:
            yield
        finally:
            ended.set()
            committing.join()


def told(world: World) -> list[int]:
    """The epochs that the runs of the DAG were told of, in order."""
    runs = world.airflow.runs("follow", "success")
    return sorted(epoch for run in runs for epoch in world.airflow.xcom("follow", run, "told"))


SCENARIOS = (Scenario("triggerer killed while epochs start DAG runs", triggerer_killed),)
