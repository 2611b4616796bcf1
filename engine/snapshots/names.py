"""How the files of snapshots are named, below a checkpoint::

    state/<stage>/<epoch>-<generation>-<first group>-<last group>-<checksum>.arrow

A stage is the number of a pipeline, a generation that of the run which wrote the file, the last
group is inclusive, and of the checksum there are the first eight digits. So no two attempts at the
same epoch ever want the same name, not even those of a query and of a copy of it; and Spark, whose
``state/`` has other names, passes them over as we pass over its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FOLDER: Final = "state"
CHECKSUM_DIGITS: Final = 8
_NAME: Final = re.compile(
    rf"{FOLDER}/(\d+)/(\d+)-(\d+)-(\d+)-(\d+)-([0-9a-f]{{{CHECKSUM_DIGITS}}})\.arrow"
)


@dataclass(frozen=True)
class SnapshotName:
    """What the name of a file tells.

    :param end_group: behind the last one.
    :param checksum: its first digits.
    """

    stage: int
    epoch: int
    generation: int
    first_group: int
    end_group: int
    checksum: str

    def __str__(self) -> str:
        parts = (self.epoch, self.generation, self.first_group, self.end_group - 1, self.checksum)
        return f"{stage_folder(self.stage)}/{'-'.join(map(str, parts))}.arrow"

    @classmethod
    def parse(cls, path: str) -> SnapshotName | None:
        """None: it is no file of a snapshot.

        :param path: relative to the checkpoint.
        """
        found = _NAME.fullmatch(path)
        if found is None:
            return None
        stage, epoch, generation, first, last = map(int, found.groups()[:5])
        return cls(stage, epoch, generation, first, last + 1, found[6])


def stage_folder(stage: int) -> str:
    """Where the files of a stage are."""
    return f"{FOLDER}/{stage}"
