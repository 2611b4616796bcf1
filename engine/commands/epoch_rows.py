"""What is told of committed epochs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.commands.result import format_time


def epoch_rows(checkpoint: Checkpoint, epochs: Sequence[int]) -> list[dict[str, Any]]:
    """When they were committed, how much they had, and up to where; without those that retention
    has removed meanwhile."""
    reports = {report.get("batchId"): report for report in checkpoint.progress.read()}

    def row(epoch: int) -> dict[str, Any]:
        return {
            "epoch": epoch,
            "committed_at": format_time(checkpoint.committed_at_ms(epoch)),
            "rows": reports.get(epoch, {}).get("numInputRows"),
            **_latency(reports.get(epoch)),
            "offsets": checkpoint.committed_offsets(epoch),
        }

    rows = checkpoint.storage.together(*(partial(row, epoch) for epoch in epochs))
    return [row for row in rows if row["offsets"] is not None]


def _latency(report: dict[str, Any] | None) -> dict[str, float | None]:
    latency = ((report or {}).get("latencyMs") or {}).get("readToWritten") or {}
    return {"p50_ms": latency.get("p50"), "p99_ms": latency.get("p99")}
