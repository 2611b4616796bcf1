"""Whether everything that arrived has been committed."""

from __future__ import annotations

from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint
from engine.sources.tail.tail_offset import positions_of
from flights.feed import COMPLETE


def everything_committed(checkpoint: str, input_path: str) -> bool:
    """Whether the feeder has said that all is written, and the query has committed all of it."""
    folder = Path(input_path)
    if not (folder / COMPLETE).exists():
        return False
    offsets = Checkpoint(checkpoint).committed_offsets()
    if offsets is None:
        return False
    committed = {file.name: file.position for file in positions_of(offsets[0])}
    return all(
        committed.get(file.name) == file.stat().st_size for file in folder.glob("[!_.]*.jsonl")
    )
