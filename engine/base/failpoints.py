"""Places between two durable steps where a test may kill or suspend the process.

Armed only by the environment, ``CONTINUOUS_FAILPOINT="commitSink.before:3:kill"``: the third time
that the process comes there it is killed, as by ``kill -9``; with ``stop`` it is suspended, until
somebody wakes it up. Several are separated by commas.
Otherwise a place costs one look at an empty dictionary.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

NAMES: Final = (
    # coordinator/runner.py: the steps of a commit
    "prepare.before",
    "prepare.after",
    "walCommit.after",
    "commitSink.before",
    "commitSink.after",
    "commitOffsets.after",
    "sourceCommit.after",
    "retention.after",
    # recovery.py
    "setAside.before",
    "setAside.after",
    # checkpoint/lease.py
    "claim.before",
    "claim.after",
    "fence.after",
    # state/snapshots.py
    "snapshot.before",
    "snapshot.after",
    # checkpoint/local_storage.py: the steps of every file of a checkpoint
    "file.written",
    "file.synced",
    "file.linked",
    "file.replaced",
    "file.settled",
    # sinks: the files of an epoch, and their log
    "data.written",
    "data.synced",
    "sinkLog.before",
    "sinkLog.after",
    "sinkLog.checked",
    # sinks that may drop what was prepared, and clients/kafka_transactions.py
    "lost.after",
    "transactions.told",
    # sinks/lakes/table_log.py
    "tableLog.before",
    "tableLog.after",
    "tableLog.checked",
    # sinks/lakes/compaction.py and maintenance.py
    "compaction.written",
    "maintenance.expired",
    "maintenance.removing",
    # sinks/databases/epochs.py
    "database.locked",
    "database.taken",
    "database.committed",
    # sources/postgres/partition_reader.py
    "postgres.snapshot",
    # sources/files/source_log.py
    "sourceLog.before",
    "sourceLog.after",
    # task/loop.py
    "report.before",
    "report.after",
)

_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_armed: dict[str, tuple[int, signal.Signals]] = {}  # name → how many times from now, and what then
_lock = threading.Lock()


def reach(name: str) -> None:
    """The process is at this place."""
    if _armed:
        _count(name)


def arm(text: str) -> None:
    """Kill or suspend the process where ``text`` says; see the module. Empty: nowhere.

    :raises ValueError: there is no such place, or it is not ``name:nth:kill`` or ``name:nth:stop``.
    """
    _armed.clear()
    for part in filter(None, text.split(",")):
        name, nth, action = part.split(":")
        if name not in NAMES or action not in _SIGNALS or int(nth) < 1:
            raise ValueError(f"CONTINUOUS_FAILPOINT: {part!r} is no failpoint")
        _armed[name] = int(nth), _SIGNALS[action]


def _count(name: str) -> None:
    with _lock:
        if name not in _armed:
            return
        left, what = _armed.pop(name)
        if left > 1:
            _armed[name] = left - 1, what
            return
    os.kill(os.getpid(), what)


arm(os.environ.get("CONTINUOUS_FAILPOINT", ""))
