"""Submissions of a query, noted in its checkpoint::

    control/submissions/<n>    {"backend":"local","label":"continuous-5a...","number":3,...}

1. A submission takes the next number by creating its file: of two who submit at once, one does, and
   the other finds that one. Nothing has started yet.
2. The file is replaced as more is known: the process, the driver's id on the cluster, the run, the
   end.

A note is no proof: whoever may write the checkpoint may write notes. It is compared with what the
machine or the cluster says about a process or a driver of that name before anything is ended.

A note that cannot be read, half-written or damaged, is a submission all the same: whose driver may
be on its way.
"""

from __future__ import annotations

from airflow_provider_continuous.deploy.contract import Handle
from engine.base.json_text import dump, load_object
from engine.checkpoint.storage.contract import FileInfo, Storage

FOLDER = "control/submissions"
KEPT = 5
"""So many notes stay, for people; and that of the last submission that has come to run: it tells
what runs, however many have failed since."""


class Notes:
    """See the module.

    :param folder: another one for submissions of another kind.
    """

    def __init__(self, storage: Storage, folder: str = FOLDER) -> None:
        self._storage = storage
        self.folder = folder

    def last(self) -> Handle | None:
        """Return the last submission; None if there is none, or its note is unreadable.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        return next((self.read(number) for number in self._numbers()[-1:]), None)

    def last_file(self) -> FileInfo | None:
        """Return the file of the last submission, readable or not; its name is the number.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        files = [file for file in self._storage.list(self.folder) if file.name.isdecimal()]
        return max(files, key=lambda file: int(file.name), default=None)

    def all(self) -> list[Handle]:
        """Return those submissions that are still noted, the last one first.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        read = map(self.read, reversed(self._numbers()))
        return [handle for handle in read if handle is not None]

    def next_number(self) -> int:
        """Return the number of the next submission."""
        return max(self._numbers(), default=-1) + 1

    def take(self, handle: Handle) -> bool:
        """Note a submission that is about to begin; False if its number is taken.

        :raises CheckpointError: the checkpoint cannot be written.
        """
        # Before: what fails behind the creation leaves a submission that nobody makes.
        for number in self._too_many():
            self._storage.delete(f"{self.folder}/{number}")
        return self._storage.create(f"{self.folder}/{handle.number}", _text(handle))

    def write(self, handle: Handle) -> None:
        """Note what is known about a submission by now.

        :raises CheckpointError: the checkpoint cannot be written.
        """
        self._storage.replace(f"{self.folder}/{handle.number}", _text(handle))

    def read(self, number: int) -> Handle | None:
        """Return a submission; None if it is not noted any more.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        try:
            return Handle.read(load_object(self._storage.read(f"{self.folder}/{number}")))
        except (FileNotFoundError, ValueError):
            return None

    def _too_many(self) -> list[int]:
        old = self._numbers()[: 1 - KEPT]  # and the one that comes
        if not old:
            return []
        last_run = next((handle.number for handle in self.all() if handle.run_id), None)
        return [number for number in old if number != last_run]

    def _numbers(self) -> list[int]:
        names = (file.name for file in self._storage.list(self.folder))
        return sorted(int(name) for name in names if name.isdecimal())


def _text(handle: Handle) -> bytes:
    return dump(handle.to_dict()).encode()
