"""The pure coordinator with 100, 1,000 and 10,000 partitions: epochs per second of CPU.

An epoch is a tick, a report of each partition and a commit; the invariants are checked after every
event, as a run does.
"""

from __future__ import annotations

import json
import time

from bench.size import sized
from engine.coordinator.coordinator import EpochCoordinator
from engine.coordinator.events import EpochCommitted, EpochElapsed
from engine.progress.counters import EpochCounters
from engine.wire.messages import EpochCommitMessage, TaskStarted

ENGINES = ("100 partitions", "1,000 partitions", "10,000 partitions")
EVENTS = sized(400_000, 100_000, 20_000)
_RUN = "bench"


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    partitions = int(engine.split()[0].replace(",", ""))
    epochs = EVENTS // partitions
    coordinator = EpochCoordinator(
        run_id=_RUN, partitions=partitions, first_epoch=0, backlog_max=10
    )
    for partition in range(partitions):
        coordinator.handle(TaskStarted(_RUN, partition, "host", 1))
    cpu_s, counters = 0.0, EpochCounters()
    for epoch in range(epochs):
        reports = [
            EpochCommitMessage(_RUN, partition, epoch, (epoch,), None, counters)
            for partition in range(partitions)
        ]
        before_s = time.process_time()
        for event in (EpochElapsed(), *reports, EpochCommitted(epoch)):
            coordinator.handle(event)
            coordinator.check()
        cpu_s += time.process_time() - before_s
    assert coordinator.committed == epochs - 1
    print(json.dumps({"epochs_per_second": epochs / cpu_s}))
