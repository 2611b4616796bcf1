"""What the offset log says of an epoch, for a query that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.errors import CheckpointError
from engine.execution.where_to_start import logged_entry


def test_offsets_under_names_are_not_given_to_sources_by_their_place(tmp_path: Path) -> None:
    """Spark 4.2 notes those of ``spark.readStream.name(...)`` in an order of its own."""
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.offsets.add(0, OffsetEntry((7, 3), {}, 2, ("alpha", "zeta")))
    with pytest.raises(CheckpointError, match="names of its sources: alpha, zeta") as caught:
        logged_entry(checkpoint, 2, 0)
    assert "Let Spark go on with it" in str(caught.value)
    checkpoint.offsets.add(1, OffsetEntry((7,), {}, 2, ("alpha",)))
    assert logged_entry(checkpoint, 1, 1).offsets == (7,), "one source is no other's"
    checkpoint.offsets.add(2, OffsetEntry((7, 3), {}, 2, ("0", "1")))
    assert logged_entry(checkpoint, 2, 2).offsets == (7, 3)
