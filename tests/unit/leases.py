"""Looks at, and tampers with, the lease of a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import EXPIRES_AFTER_INTERVALS, Lease, LeaseRecord
from engine.checkpoint.process import Process

EXPIRED_S = EXPIRES_AFTER_INTERVALS + 0.001


def acquire(checkpoint: Checkpoint, clock: ManualClock, run_id: str = "run-a") -> Lease:
    return Lease.acquire(checkpoint, run_id=run_id, clock=clock)


def on_disk(checkpoint: Checkpoint) -> LeaseRecord:
    return LeaseRecord.deserialize(checkpoint.storage.read("control/lease"))


def elsewhere(checkpoint: Checkpoint, lease: Lease) -> None:
    """Let it look as if the holder ran on another machine."""
    held_by(checkpoint, lease, Process("another-host", lease.record.pid))


def held_by(checkpoint: Checkpoint, lease: Lease, process: Process) -> None:
    """Let it look as if another process were the holder."""
    for name in ("control/lease", f"control/generations/{lease.generation}"):
        record = LeaseRecord.deserialize(checkpoint.storage.read(name))
        there = replace(record, host=process.host, pid=process.pid, process_started=process.started)
        checkpoint.storage.replace(name, there.serialize())


def claims(checkpoint: Checkpoint) -> list[str]:
    return sorted(file.name for file in checkpoint.storage.list("control/generations"))
