"""What a commit to a table tells of itself, for a rewind and for people::

    {"query": ..., "epoch": 7, "files": 4}      an epoch
    {"query": ..., "epoch": 7, "files": 12, "parts": [[2, 1, 0, [2, 3], 5]]}
                                                several: 2 has one file, 3 none, 4 to 6 two each
    {"query": ..., "rewoundTo": 3}              a rewind

A part is its first epoch, and how many files that one and those behind it have. ``[files, epochs]``
stands for so many epochs in a row that have as many: a table keeps the notes of all its commits,
and the epochs of one may be a thousand. There may be several parts: earlier releases wrote one for
each epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from engine.checkpoint.sink_context import SinkContext

_IN_A_ROW_MIN: Final = 4
"""So many are shorter as ``[files, epochs]``."""


def note_of(context: SinkContext, **told: Any) -> dict[str, Any]:
    """The note of a commit of this query."""
    return {"query": context.query_id, **told}


def note_of_epochs(context: SinkContext, epochs: Mapping[int, Sequence[Any]]) -> dict[str, Any]:
    """The same, of a commit of these epochs with their files."""
    note = note_of(context, epoch=max(epochs), files=sum(map(len, epochs.values())))
    if len(epochs) > 1:
        note["parts"] = [_part({epoch: len(files) for epoch, files in epochs.items()})]
    return note


def epochs_in(note: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The epochs of a commit by its note, each with the number of its files; of any other commit,
    none."""
    if "epoch" not in note:
        return []
    parts = note.get("parts", [[note["epoch"], note["files"]]])
    return [each for part in parts for each in _epochs_of(part)]


def _part(files: Mapping[int, int]) -> list[Any]:
    first = min(files)
    part: list[Any] = [first]
    numbers = (files.get(epoch, 0) for epoch in range(first, max(files) + 1))
    for number, same in groupby(numbers):
        count = len(list(same))
        part += [[number, count]] if count >= _IN_A_ROW_MIN else [number] * count
    return part


def _epochs_of(part: Sequence[Any]) -> Iterator[tuple[int, int]]:
    epoch, *numbers = part
    for each in numbers:
        number, count = each if isinstance(each, Sequence) else (each, 1)
        if number:
            yield from ((epoch + index, number) for index in range(count))
        epoch += count
