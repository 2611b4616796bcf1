"""Which task owns a key: by its key group, one of a number that a query keeps for its life.

Groups are handed to tasks in even runs, so another number of tasks takes over whole groups, and the
rows of a state say to which group they belong.
"""

from __future__ import annotations

from typing import Final

KEY_GROUPS: Final = 128
"""A query has so many, unless option ``keyGroups`` says otherwise at its first start."""
KEY_GROUPS_MAX: Final = 1 << 15


def groups_of(task: int, tasks: int, groups: int) -> range:
    """The key groups that a task owns.

    :param task: its index among the tasks of its stage, from 0.
    :param tasks: how many there are, at most as many as groups.
    """
    return range(groups * task // tasks, groups * (task + 1) // tasks)
