"""One query of a scenario, seen from outside: its checkpoint, its processes, its logs."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import psutil

from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import standing_by
from scripts.local_airflow.rest import wait_for
from tests.airflow.stand_in import BEFORE_GATE

WAIT_S = 300.0
AFTER_GATE = BEFORE_GATE + 5
"""An epoch that commits only when the gate is open."""
_COMMITTED = re.compile(r"^committed (\d+) generation (\d+)\n", re.MULTILINE)


class Query:
    """:param folder: for its checkpoint, its gate, and the logs of its runs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        # Where the provider keeps the specifications and logs of a local checkpoint's queries.
        self.logs = folder / "checkpoint.logs"
        self.gate = folder / "gate"
        self.lease_gate = folder / "lease-gate"
        self.lease_gate.touch()

    def params(self, epoch: int | str) -> dict[str, str]:
        """What a DAG run must know: the query, and the epoch its task waits for."""
        return {
            "checkpoint": self.checkpoint.url,
            "lease_gate": str(self.lease_gate),
            "gate": str(self.gate),
            "epoch": str(epoch),
        }

    def status(self) -> CheckpointStatus:
        """What the checkpoint tells."""
        return self.checkpoint.status()

    def processes(self) -> list[psutil.Process]:
        """The processes that run the query or try to, whoever has started them."""
        marker = f"{self.logs}/"
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            command = process.info["cmdline"] or []
            if "run" in command and any(part.startswith(marker) for part in command):
                found.append(process)
        return [p for p in found if p.info["status"] != psutil.STATUS_ZOMBIE]

    def wait_for_process(self, other_than: int | None = None) -> psutil.Process:
        """Wait, with sharp eyes, until a process has been started for the query.

        :param other_than: the id of the one before.
        """

        def started() -> psutil.Process | None:
            return next((p for p in self.processes() if p.pid != other_than), None)

        return wait_for(started, WAIT_S, "the query's process", every_s=0.01)

    def wait_for_standby(self) -> int:
        """Wait until one stands by; return its process."""
        wait_for(lambda: standing_by(self.checkpoint.storage), WAIT_S, "a standby", every_s=0.1)
        return standing_by(self.checkpoint.storage)[0].pid

    def hold_start(self) -> None:
        """Let no process take the lease before :meth:`let_start`: all must race for it."""
        self.lease_gate.unlink()

    def let_start(self) -> None:
        """Let them race."""
        self.lease_gate.touch()

    def wait_until_running(self, other_than: str | None = None) -> CheckpointStatus:
        """Wait until the query runs, and has committed what it may.

        :param other_than: it must be another run than this one.
        """

        def runs() -> CheckpointStatus | None:
            status = self.status()
            ready = status.state is QueryState.RUNNING and status.run_id != other_than
            return status if ready and status.epoch >= BEFORE_GATE - 1 else None

        return wait_for(runs, WAIT_S, f"the query of {self.checkpoint.url} to run", every_s=0.1)

    def open_gate(self) -> None:
        """Let it commit what the tasks wait for, and all that comes after."""
        self.gate.touch()

    def goes_on(self) -> bool:
        """Whether it commits."""
        epoch = self.checkpoint.committed_epoch()
        wait_for(lambda: self.checkpoint.committed_epoch() > epoch + 1, 60, "more epochs")
        return True

    def interleaved(self) -> list[str]:
        """Name each epoch that two runs have committed, or one that a later run had fenced."""
        found, newest, seen = [], -1, set()
        for epoch, generation in sorted(self._commits()):
            if epoch in seen:
                found.append(f"epoch {epoch} was committed twice")
            if generation < newest:
                found.append(f"generation {generation} committed epoch {epoch} after {newest} had")
            seen.add(epoch)
            newest = max(newest, generation)
        return found

    def _commits(self) -> list[tuple[int, int]]:
        logs = [path.read_text(errors="replace") for path in self.logs.glob("*.log")]
        pairs = [match for log in logs for match in _COMMITTED.findall(log)]
        return [(int(epoch), int(generation)) for epoch, generation in pairs]

    def end(self) -> None:
        """Kill whatever is left of it."""
        killed = self.processes()
        for process in killed:
            with suppress(psutil.NoSuchProcess):
                process.kill()

        def all_ended() -> bool:  # who is ending has no command line, and is not gone yet
            return not self.processes() and all(map(_has_ended, killed))

        wait_for(all_ended, 120, "the query's processes to end")


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def started_by(process: psutil.Process) -> psutil.Process:
    """Return the task that has started a query's process.

    :raises psutil.NoSuchProcess: it has ended.
    """
    parent = process.parent()
    if parent is None or parent.pid == 1:
        raise psutil.NoSuchProcess(process.pid, msg="the task that has started it has ended")
    return parent
