"""What the last rewind of a checkpoint has left, for those who read its logs afterwards.

A run that was suspended in the very middle of a write when the query was rewound carries out that
one write when it wakes (see :mod:`engine.checkpoint.lease`): create-if-absent would refuse it, but
the rewind has moved the entry of that number away. Only the numbers that the rewind took back, and
the next one, can come late like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.base.json_text import load_object
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError

DONE = "control/rewound"


class Rewound(NamedTuple):
    """The last finished rewind.

    :param to_epoch: the last epoch that stayed.
    :param from_epoch: the last one that was committed before.
    :param generation: of the rewind: who writes after it has a higher one.
    """

    to_epoch: int
    from_epoch: int
    generation: int

    @property
    def taken_back(self) -> range:
        """The epochs that a run from before the rewind may still write an entry of."""
        return range(self.to_epoch + 1, self.from_epoch + 2)


def read_rewound(storage: Storage) -> Rewound | None:
    """None if the checkpoint was never rewound.

    :raises CheckpointCorruptError: the record cannot be read.
    """
    data = last_rewind(storage)
    if data is None:
        return None
    try:
        given = load_object(data)
        return Rewound(*(int(given[name]) for name in Rewound._fields))
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


def without_late(ids: Sequence[int], storage: Storage) -> list[int]:
    """The entries of a log, without those that came late, behind a gap which the rewind has left.

    :param ids: ascending.
    """
    gap = next((at for at in range(1, len(ids)) if ids[at] != ids[at - 1] + 1), None)
    if gap is None:  # as nearly always: nothing more is read
        return list(ids)
    rewound = read_rewound(storage)
    late = () if rewound is None or ids[-1] not in rewound.taken_back else rewound.taken_back
    return [id for at, id in enumerate(ids) if at < gap or id not in late]
