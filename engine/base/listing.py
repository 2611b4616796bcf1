"""Numbers in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN_MAX = 10


def listed(numbers: Sequence[int]) -> str:
    """``[1, 3]``; of more than ten the first ones and how many follow: an error that names 10,000
    partitions is read by nobody."""
    shown = str(list(numbers[:SHOWN_MAX]))
    more = len(numbers) - SHOWN_MAX
    return f"{shown} and {more:,} more" if more > 0 else shown


def partitions_named(numbers: Sequence[int]) -> str:
    """``partition 3``, or ``partitions [2, 3]``: those of one task, at least one."""
    return f"partition {numbers[0]}" if len(numbers) == 1 else f"partitions {listed(numbers)}"


def runs_of(ids: Sequence[int]) -> str:
    """``0-3, 5`` for 0, 1, 2, 3, 5; ``nothing`` for none."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs) or "nothing"
