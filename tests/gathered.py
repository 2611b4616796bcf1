"""What a stage tells a snapshot, whole."""

from __future__ import annotations

import pyarrow as pa

from engine.state.contract import StatefulStage


def changes_of(stage: StatefulStage, *, whole: bool) -> dict[str, pa.Table]:
    """The tables of :meth:`StatefulStage.changes`; one without changes is not there."""
    found: dict[str, list[pa.Table]] = {}
    for name, rows in stage.changes(whole=whole):
        found.setdefault(name, []).append(rows)
    return {name: pa.concat_tables(parts) for name, parts in found.items()}
