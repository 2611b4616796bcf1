"""Stands in for ``python -m engine run SPEC``: a query's outside without Spark.

Takes the real lease, commits an epoch every 50 ms, answers requests and SIGTERM. The key
``stand_in`` of the specification's ``conf`` makes it misbehave: before the lease ``die``, ``hang``
or find the machine ``wrong``; with the lease be ``refused`` as another query, or ``stuck`` without
an epoch; ``fail`` after the first epoch. ``latency_ms`` is what its progress reports say. With
``lease_gate``, a path, it tries to take the lease only once that file exists; with ``gate``, it
commits more than :data:`BEFORE_GATE` epochs only then. Prints each epoch that it has committed, and
as which generation. With ``--only-standby`` it waits, and takes over, as the engine does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import finish_rewind
from engine.checkpoint.standby import NoTurn, Standby
from engine.commands.result import WRONG_USE
from engine.errors import ConcurrentRunError
from engine.sinks.builtin_sinks import KeepsNothing

BEFORE_GATE = 5


def write_progress(checkpoint: Checkpoint, lease: Lease, epoch: int, spec: dict[str, Any]) -> None:
    latency = {"p99": float(spec.get("conf", {}).get("latency_ms", 1))}
    report = {"readToWritten": latency, "epochEndToCommitted": 1}
    checkpoint.progress.write([{"runId": lease.run_id, "batchId": epoch, "latencyMs": report}])


def main() -> int:
    assert sys.argv[1] == "run"
    spec_path = Path(sys.argv[2])
    assert spec_path.stat().st_mode & 0o777 == 0o600, "others can read the specification"
    spec = json.loads(spec_path.read_text())
    if "--forget" in sys.argv:
        spec_path.unlink()
    behaviour = spec.get("conf", {}).get("stand_in")
    gate = spec.get("conf", {}).get("gate")
    lease_gate = spec.get("conf", {}).get("lease_gate")
    ended = threading.Event()
    # Not in the handler: the thread that it interrupts may hold the event's own lock.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=ended.set).start())
    if behaviour == "hang":
        ended.wait()
        return 0
    if behaviour in ("die", "wrong"):
        print("out of memory" if behaviour == "die" else "no Java found", file=sys.stderr)
        return 1 if behaviour == "die" else WRONG_USE
    print("environment", sorted(os.environ))
    print("session", os.getsid(0) == os.getpid(), "standard input", sys.stdin.read() == "")
    while lease_gate is not None and not Path(lease_gate).exists() and not ended.is_set():
        ended.wait(0.01)
    checkpoint = Checkpoint(spec["checkpoint_location"])
    standby = Standby(ended.is_set, begins=False)
    if "--only-standby" in sys.argv:
        try:
            standby.await_turn(checkpoint)
        except NoTurn as no_turn:
            print("not needed:", no_turn, flush=True)
            return 0
    checkpoint.create_or_read_query_id(str(uuid.uuid4()))
    try:
        lease = Lease.acquire(checkpoint, run_id=str(uuid.uuid4()), lost=standby.lost)
    except ConcurrentRunError as error:
        print(error, file=sys.stderr)
        return 1
    if behaviour == "refused":
        lease.release(QueryState.FAILED, "This is not the query that this checkpoint belongs to")
        return 1
    finish_rewind(checkpoint, lease, KeepsNothing())
    write_fingerprint(
        checkpoint.storage,
        {"sql": spec.get("sql"), "sink": {"options": {}, **spec.get("sink", {})}},
    )
    epoch = checkpoint.committed_epoch()
    while behaviour == "stuck":
        lease.heartbeat(state=QueryState.RUNNING)
        if ended.wait(0.05) or checkpoint.requests.pending(lease.run_id):
            lease.release(QueryState.STOPPED)
            return 0
    while True:
        lease.heartbeat(state=QueryState.RUNNING)
        if gate is None or epoch + 1 < BEFORE_GATE or Path(gate).exists():
            epoch += 1
            checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
            if checkpoint.commits.add(epoch, CommitEntry()):
                print("committed", epoch, "generation", lease.generation)
            write_progress(checkpoint, lease, epoch, spec)
        if behaviour == "fail":
            print("the sink is full", file=sys.stderr)
            lease.release(QueryState.FAILED, "the sink is full")
            return 2
        if ended.wait(0.05) or checkpoint.requests.pending(lease.run_id):
            lease.release(QueryState.STOPPED)
            return 0


if __name__ == "__main__":
    sys.exit(main())
