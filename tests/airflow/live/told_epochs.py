"""What a query tells of its epochs, as its checkpoint has it: for pages that show them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, Final

from engine.history.folding import History, Mark
from engine.history.measures import measured
from engine.history.stored import Packer, StoredHistory

BEGAN_S: Final = round(time.time()) - 61 * 20


def report(epoch: int) -> dict[str, Any]:
    started = datetime.fromtimestamp(BEGAN_S + epoch * 20, timezone.utc)
    return {
        "runId": "run-1",
        "batchId": epoch,
        "name": "orders-to-lake",
        "timestamp": started.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "batchDuration": 1000,
        "numInputRows": 1200 + epoch,
        "inputRowsPerSecond": 1200.0 + epoch,
        "durationMs": {"commitSink": 9, "walCommit": 2, "triggerExecution": 14},
        "sources": [
            {
                "description": "kafka",
                "startOffset": json.dumps({"orders": {"0": epoch * 10, "1": epoch * 20}}),
                "endOffset": json.dumps({"orders": {"0": epoch * 10 + 10, "1": epoch * 20 + 20}}),
                "latestOffset": json.dumps({"orders": {"0": 700, "1": 1900}}),
                "lag": json.dumps({"orders": {"0": 100, "1": 700}}),
                "lagTotal": 800,
                "numInputRows": 1200,
                "inputRowsPerSecond": 1200.0,
            }
        ],
        "stateOperators": [{"operatorName": "group", "numRowsTotal": 5, "snapshotBytes": 9000}],
        "sink": {"description": "delta", "numOutputRows": 600},
        "stages": [
            {
                "name": name,
                "tasks": 2,
                "readingMs": 1900.0 - epoch,
                "transformingMs": 80.0 + epoch,
                "writingMs": 20.0,
            }
            for name in ("source 0", "group")
        ],
        "latencyMs": {
            "readToWritten": {"p50": 2.5, "p99": 4.5, "max": 9.5},
            "epochEndToCommitted": 14,
        },
        "numBadRecords": 1 if epoch == 30 else 0,
        "restarts": 1 if epoch > 40 else 0,
        "lastError": "a worker was killed" if epoch > 40 else None,
    }


def history_of(epochs: Iterable[int], **changes: Any) -> bytes:
    kept = StoredHistory(History(), ("run-1", max(epochs)))
    for epoch in epochs:
        kept.history.add(measured({**report(epoch), **changes}))
    at_ms = (BEGAN_S + 41 * 20) * 1000
    kept.history.marks.append(Mark(at_ms, "restarted", "a worker was killed"))
    return Packer().within_budget(kept.blocks, lambda: False)
