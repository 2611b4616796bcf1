"""Whether everything that arrived has been committed."""

from __future__ import annotations

from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint
from flights.feed import COMPLETE


def everything_committed(checkpoint: str, input_path: str) -> bool:
    """Whether the feeder has said that all is written, and the query has committed all of it."""
    folder = Path(input_path)
    if not (folder / COMPLETE).exists():
        return False
    offsets = Checkpoint(checkpoint).committed_offsets()
    if offsets is None or not isinstance(offsets[0], dict):
        return False
    committed = offsets[0]
    return all(
        committed.get(file.name) == file.stat().st_size for file in folder.glob("[!_.]*.jsonl")
    )
