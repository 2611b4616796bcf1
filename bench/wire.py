"""The wire with up to 2,000 authenticated tasks, epochs of a second: endpoint and coordinator.

The tasks are real connections of a few other processes. Each says every two seconds that it is
alive, and reports every epoch as soon as it sees the marker.

- CPU: seconds per second of the driver's process, all threads, while epochs are committed;
- marker: from the driver's call until a task can read it, over all tasks and epochs. All processes
  share this machine, so it includes the wait of the tasks for one another.
"""

from __future__ import annotations

import json
import pickle
import queue
import selectors
import subprocess
import sys
import threading
import time

from bench.measure import percentile
from bench.size import sized
from engine.coordinator.coordinator import EpochCoordinator
from engine.coordinator.endpoint import Endpoint
from engine.coordinator.events import CloseEpoch, CommitEpoch, EpochCommitted, EpochElapsed, Event
from engine.progress.counters import EpochCounters
from engine.wire.connection import Connection, Dialing, connect
from engine.wire.messages import (
    Dismissed,
    EpochCommitMessage,
    EpochMarker,
    TaskAlive,
    TaskStarted,
    Welcome,
)

ENGINES = ("100 tasks", "1,000 tasks", "2,000 tasks", "2,000 tasks, TLS")
EPOCHS = sized(20, 8, 2)
PROCESSES = 4
WARM_UP = 2
_RUN = "bench"


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    tasks = int(engine.split()[0].replace(",", ""))
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
    endpoint = Endpoint("127.0.0.1", heard.put, tls=engine.endswith("TLS"), tasks=tasks)
    share = tasks // PROCESSES
    processes = []
    for number in range(PROCESSES):
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.wire", str(number * share), str(share)],
            stdin=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(endpoint.dialing))
        process.stdin.close()
        processes.append(process)
    try:
        figures = _drive(endpoint, heard, tasks, EPOCHS)
    finally:
        endpoint.dismiss("done")
        for process in processes:
            process.wait(30)
        endpoint.close()
    print(json.dumps(figures))


def _drive(
    endpoint: Endpoint, heard: queue.SimpleQueue[Event], tasks: int, epochs: int
) -> dict[str, float]:
    coordinator = EpochCoordinator(run_id=_RUN, partitions=tasks, first_epoch=0, backlog_max=100)
    sent_ns: dict[int, int] = {}
    late_ms: list[float] = []
    began_s = time.monotonic()
    next_s: float | None = None
    cpu_s = wall_s = connected_s = 0.0
    while coordinator.committed < WARM_UP + epochs:
        event: Event
        try:
            left_s = 60.0 if next_s is None else max(next_s - time.monotonic(), 0.0)
            event = heard.get(timeout=left_s)
        except queue.Empty:
            assert next_s is not None, "the tasks do not connect"
            event, next_s = EpochElapsed(), next_s + 1
        actions = coordinator.handle(event)
        coordinator.check()
        if next_s is None and len(coordinator.started) == tasks:
            connected_s = time.monotonic() - began_s
            next_s = time.monotonic() + 1
        for action in actions:
            if isinstance(action, CloseEpoch):
                sent_ns[action.epoch] = time.monotonic_ns()
                endpoint.broadcast(EpochMarker(action.epoch))
            elif isinstance(action, CommitEpoch):
                heard.put(EpochCommitted(action.epoch))
                if action.epoch == WARM_UP:
                    cpu_s, wall_s = time.process_time(), time.monotonic()
                elif action.epoch > WARM_UP:
                    sent = sent_ns[action.epoch]
                    late_ms += [(report.offsets[0] - sent) / 1e6 for report in action.reports]
            else:
                raise SystemExit(f"the run ended: {action.error}")
    cpu = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    return {
        "cpu": cpu,
        "p50": percentile(late_ms, 50),
        "p99": percentile(late_ms, 99),
        "max": max(late_ms),
        "connected_s": connected_s,
        "threads": threading.active_count(),
    }


def be_tasks(first: int, count: int, dialing: Dialing) -> None:
    """Be so many tasks until the driver dismisses them."""
    selector = selectors.DefaultSelector()
    tasks: dict[int, Connection] = {}
    for partition in range(first, first + count):
        task = tasks[partition] = connect(dialing)
        assert isinstance(task.receive(), Welcome)
        task.send(TaskStarted(_RUN, partition, "host", 1))
        selector.register(task, selectors.EVENT_READ, partition)
    counters = EpochCounters()
    alive = list(tasks)
    while True:
        arrived = []
        # All that is there is read before anything is made of it: the time of the read counts.
        while ready := selector.select(0 if arrived else 0.1):
            for key, _ in ready:
                task = tasks[key.data]
                data = task._socket.recv(1 << 16)
                if not data:
                    return
                arrived.append((key.data, time.monotonic_ns(), data))
        for partition, read_ns, data in arrived:
            task = tasks[partition]
            for payload in task._session.open(memoryview(data)):
                message = pickle.loads(payload)
                if isinstance(message, Dismissed):
                    return
                epoch = message.epoch
                task.send(EpochCommitMessage(_RUN, partition, epoch, (read_ns,), None, counters))
        if not arrived:  # a twentieth of them every tenth of a second
            for partition in alive[: max(count // 20, 1)]:
                tasks[partition].send(TaskAlive(_RUN, partition))
            alive = alive[max(count // 20, 1) :] or list(tasks)


if __name__ == "__main__":
    be_tasks(int(sys.argv[1]), int(sys.argv[2]), pickle.loads(sys.stdin.buffer.read()))
