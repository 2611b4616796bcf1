"""What the last rewind of a checkpoint has left, for those who read its logs afterwards.

A run that was suspended in the very middle of a write when the query was rewound carries out that
one write when it wakes (see :mod:`engine.checkpoint.lease`): create-if-absent would refuse it, but
the rewind has moved the entry of that number away. Only the numbers that the rewind took back, and
the next one, can come late like this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from engine.base.json_text import load_object
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError

INTENT = "control/rewind"
DONE = "control/rewound"


class Rewound(NamedTuple):
    """The last finished rewind.

    :param to_epoch: the last epoch that stayed.
    :param from_epoch: the last one that was committed before.
    :param generation: of the rewind: who writes after it has a higher one.
    :param reach: the last epoch that a run from before it, or from before an earlier rewind, may
        have been about to write an entry of.
    :param offsets: the entry of ``to_epoch`` in the offset log; ``commit`` that in the commit log.
    """

    to_epoch: int
    from_epoch: int
    generation: int
    reach: int
    offsets: str
    commit: str

    @property
    def taken_back(self) -> range:
        """The epochs of which an entry may come late."""
        return range(self.to_epoch + 1, self.reach + 1)


def read_rewound(storage: Storage) -> Rewound | None:
    """None if the checkpoint was never rewound.

    :raises CheckpointCorruptError: the record cannot be read.
    """
    data = last_rewind(storage)
    if data is None:
        return None
    try:
        given = load_object(data)
        reach = given.get("reach") or given["from_epoch"] + 1
        return Rewound(
            **{name: given[name] for name in Rewound._fields if name != "reach"}, reach=reach
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise CheckpointCorruptError(
            f"{storage.path(DONE)} cannot be read: {exc}.",
            hint="Restore the checkpoint from a copy.",
        ) from exc


def last_rewind(storage: Storage) -> bytes | None:
    """The record as it is, of each rewind another one; None if there was none."""
    try:
        return storage.read(DONE)
    except FileNotFoundError:
        return None


def is_rewind(storage: Storage, generation: int | None) -> bool:
    """Whether that generation is of the last rewind, and not of a run.

    :raises CheckpointCorruptError: the record cannot be read.
    """
    rewound = read_rewound(storage)
    return rewound is not None and rewound.generation == generation


def is_rewound_since(storage: Storage, known: bytes | None) -> bool:
    """Whether the query is being rewound, or was since :func:`last_rewind` told this."""
    return storage.exists(INTENT) or last_rewind(storage) != known


def without_late(ids: Sequence[int], storage: Storage) -> list[int]:
    """The entries of a log, without those that came late, behind a gap which the rewind has left.

    :param ids: ascending.
    """
    gaps = [at for at in range(1, len(ids)) if ids[at] != ids[at - 1] + 1]
    late = range(0)
    if gaps:  # else, as nearly always, nothing more is read
        late = may_come_late(ids, storage)
    # An older gap is what a prune has left that was killed.
    gap = next((at for at in gaps if ids[at] > late.start), len(ids))
    return [id for at, id in enumerate(ids) if at < gap or id not in late]


def may_come_late(ids: Collection[int], storage: Storage) -> range:
    """The epochs of which an entry may come late, and take a gap to be known by; none, if a run has
    committed beyond them.

    :param ids: of the entries of the commit log.
    """
    rewound = read_rewound(storage)
    if rewound is None or max(ids, default=-1) not in rewound.taken_back:
        return range(0)
    return rewound.taken_back
