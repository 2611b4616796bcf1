"""Places between two durable steps where a test may kill the process.

Armed only by the environment, ``CONTINUOUS_FAILPOINT="commitSink.before:3:kill"``: the third time
that the process comes there it is killed, as by ``kill -9``. Several are separated by commas.
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

_armed: dict[str, int] = {}  # name → how many times from now
_lock = threading.Lock()


def reach(name: str) -> None:
    """The process is at this place."""
    if _armed:
        _count(name)


def arm(text: str) -> None:
    """Kill the process where ``text`` says; see the module. Empty: nowhere.

    :raises ValueError: there is no such place, or it is not ``name:nth:kill``.
    """
    _armed.clear()
    for part in filter(None, text.split(",")):
        name, nth, action = part.split(":")
        if name not in NAMES or action != "kill" or int(nth) < 1:
            raise ValueError(f"CONTINUOUS_FAILPOINT: {part!r} is no failpoint")
        _armed[name] = int(nth)


def _count(name: str) -> None:
    with _lock:
        if name not in _armed:
            return
        _armed[name] -= 1
        if _armed[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("CONTINUOUS_FAILPOINT", ""))
