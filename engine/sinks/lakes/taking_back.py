"""Which files of a table a rewind has to take out of it.

The names of files tell. Whether they still hold the rows of these epochs, and no others, the
table's history tells: each commit of an epoch has noted how many files it added, and as many have
to be there. Once somebody has rewritten them, or the history of that time is gone, a rewind is
refused. The notes: :mod:`engine.sinks.lakes.notes`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from engine.errors import ConfigError
from engine.sinks.lakes.notes import epochs_in
from engine.sinks.lakes.origins import origin_of, query_part

F = TypeVar("F")


class Lake(NamedTuple):
    """
    :param table: what it is, for errors: ``sink delta: the table /data/orders``.
    :param rewriters: what rewrites a table's files there.
    :param hint: what is left to do when it is not known what came later.
    """

    table: str
    rewriters: str
    hint: str


def later_files(
    lake: Lake,
    query_id: str,
    epoch: int,
    files: Iterable[tuple[str, F]],
    history: Iterable[Mapping[str, Any] | None],
    *,
    is_whole: bool,
) -> dict[str, F]:
    """The files of later epochs, by path.

    :param files: all that the table has now: path, and whatever else is of interest.
    :param history: the notes of its commits, the newest first; None for those of others.
    :param is_whole: the history reaches back to the table's first commit, or nothing can have
        come before it.
    :raises ConfigError: it is not known any more which they are.
    """
    query = query_part(query_id)
    found: dict[str, F] = {}
    there: Counter[int] = Counter()
    for path, file in files:
        origin = origin_of(path)
        if origin is not None and origin.query == query and origin.epoch > epoch:
            found[path] = file
            there[origin.epoch] += 1
    expected: Counter[int] = Counter()
    for later, count in _committed_behind(lake, query_id, epoch, history, is_whole):
        expected[later] += count
    if there != expected:
        changed = min(each for each in there | expected if there[each] != expected[each])
        raise ConfigError(
            f"{lake.table}: files of epoch {changed} in it were rewritten since "
            f"({lake.rewriters}): which rows came behind epoch {epoch} is not known any more.",
            hint=lake.hint,
            epoch=epoch,
        )
    return found


def is_last(newest: int | None, epoch: int) -> bool:
    """Whether no later epoch than this is in the table, whatever its history tells.

    :param newest: the query's, as the table tells it; None: it does not tell.
    """
    return newest is not None and newest <= epoch


def _committed_behind(
    lake: Lake,
    query_id: str,
    epoch: int,
    history: Iterable[Mapping[str, Any] | None],
    is_whole: bool,
) -> Iterator[tuple[int, int]]:
    """The commits of later epochs that no rewind has taken back: epoch, and number of files."""
    taken_back = sys.maxsize
    for note in history:
        if note is None or note.get("query") != query_id:
            continue
        if "rewoundTo" in note:
            taken_back = min(taken_back, note["rewoundTo"])
            if taken_back <= epoch:
                return  # of what came before nothing later is there
            continue
        committed = epochs_in(note)
        for each, files in committed:
            if epoch < each <= taken_back:
                yield each, files
        if committed and committed[0][0] <= epoch:
            return
    if not is_whole:
        raise ConfigError(
            f"{lake.table}: its history does not reach back to epoch {epoch}: which files came "
            "later is not known any more.",
            hint=lake.hint,
            epoch=epoch,
        )
