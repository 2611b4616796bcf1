"""Which task owns a key: by its key group, one of a number that a query keeps for its life.

Groups are handed to tasks in even runs, so another number of tasks takes over whole groups, and the
rows of a state say to which group they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KEY_GROUPS: Final = 128
"""A query has so many, unless option ``keyGroups`` says otherwise at its first start."""
KEY_GROUPS_MAX: Final = 1 << 15


@dataclass(frozen=True)
class KeyGroups:
    """What a stage of a task knows of key groups.

    :param owned: those whose keys the task owns.
    :param of: from the columns of keys, and how many rows these have, to their groups.
    """

    owned: range
    of: Callable[[Sequence[pa.Array], int], npt.NDArray[np.uint16]]


def groups_of(task: int, tasks: int, groups: int) -> range:
    """The key groups that a task owns.

    :param task: its index among the tasks of its stage, from 0.
    :param tasks: how many there are, at most as many as groups.
    """
    return range(groups * task // tasks, groups * (task + 1) // tasks)
