"""Which entries a run has written behind a rewind that it slept through.

Pure, as the restart table, which sets these entries aside before it looks for a row: to trust one
would lose the records of its epoch, or end an epoch where another history ended it.

Only the numbers that were taken back can come late (:mod:`engine.checkpoint.rewound`), and only
until another run has committed beyond them. Who wrote an entry of such a number is known by this:

- a prepared entry tells its generation;
- an entry of the commit log tells it, too, if it was written after a rewind. One that does not is
  Spark's, if it has its offsets, follows the ones before without a gap, and nothing was prepared
  for it since the rewind;
- an entry of the offset log that is not committed needs somebody who vouches for it: what was
  prepared since the rewind, the sink that has the epoch, or the metadata that Spark's micro-batches
  write. Without, its epoch is begun anew: at worst a sink gets rows again of an epoch that Spark's
  continuous mode left open, which promises no more than at least once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from engine.checkpoint.rewound import Rewound
from engine.coordinator.restart_table import COMMITS, OFFSETS, PREPARED


def late_entries(
    rewound: Rewound,
    *,
    offsets: Sequence[int],
    commits: Sequence[int],
    prepared_by: Mapping[int, int | None],
    committed_by: Mapping[int, int | None],
    vouched: Collection[int] = (),
) -> frozenset[tuple[str, int]]:
    """(log, epoch) of each.

    :param offsets: all entries of the offset log, ascending; ``commits`` those of the commit log.
    :param prepared_by: of each prepared entry, its generation; None if it is torn.
    :param committed_by: of entries of the commit log, their generation; those that do not tell, or
        are torn, may be left out.
    :param vouched: epochs of the offset log that the sink has, or that Spark's micro-batches wrote.
    """
    taken_back = rewound.taken_back
    if commits and commits[-1] >= taken_back.stop:
        return frozenset()

    def is_old(generation: int | None) -> bool:
        return generation is not None and generation <= rewound.generation

    late = {
        (PREPARED, epoch) for epoch, by in prepared_by.items() if epoch in taken_back and is_old(by)
    }
    prepared_since = {epoch for epoch in prepared_by if (PREPARED, epoch) not in late}
    trusted = [epoch for epoch in commits if epoch <= rewound.to_epoch]
    for epoch in (epoch for epoch in commits if epoch in taken_back):
        by = committed_by.get(epoch)
        follows = not trusted or trusted[-1] == epoch - 1
        is_spark_s = by is None and epoch in offsets and epoch not in prepared_since and follows
        if is_spark_s or (by is not None and not is_old(by)):
            trusted.append(epoch)
        else:
            late.add((COMMITS, epoch))
    committed = trusted[-1] if trusted else -1
    late |= {
        (OFFSETS, epoch)
        for epoch in offsets
        if epoch in taken_back and epoch > committed and epoch not in {*prepared_since, *vouched}
    }
    return frozenset(late)
