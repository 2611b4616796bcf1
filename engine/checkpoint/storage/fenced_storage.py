"""A folder on a disk that one run at a time changes, and none that has lost it.

::

    .g7-<owner>/   all that generation 7 writes is written here first
    .left-<uuid>/  what an earlier one has left; is being removed

A look at a lease before each write is not enough: a process that is suspended between the two
carries the write out when it wakes up. Here each change is one call that needs the run's own
folder: a new file is linked or renamed out of it, and one that goes is renamed into it. Who takes
over renames the folders of lower generations away. Whatever a sleeper was about to do fails then,
as its next step does.

A run takes the folder, and looks at its lease after that and before it writes. Who takes over has
claimed the lease before it looks for folders: it finds that of a run that may still write.

An NFS server goes by a file, not by its name: so what was prepared in a folder is removed, too.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from engine.base import durable as disk
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ContinuousError, StaleRunError

_OWN: Final = re.compile(r"\.g(\d+)-(.*)", re.DOTALL)
_LEFT: Final = ".left-"


class FencedStorage(LocalStorage):
    """See the module. Until :meth:`take` is called it is a folder as any other."""

    _own: Path | None = None

    def take(self, owner: str, generation: int) -> None:
        name = quote(owner, safe="")
        own = self.root / f".g{generation}-{name}"
        try:
            disk.make_folder(self.root)
            for folder in self._folders():
                found = _OWN.fullmatch(folder.name)
                if found and found[2] == name and int(found[1]) < generation:
                    with suppress(FileNotFoundError):  # somebody else does the same
                        disk.system.replace(folder, self.root / f"{_LEFT}{uuid.uuid4()}")
            with suppress(FileExistsError):
                disk.system.mkdir(own)
            disk.sync_folder(self.root)
            for folder in self._folders():
                if folder.name.startswith(_LEFT):
                    _remove(folder)
        except OSError as exc:
            raise super()._failed("write", own, exc) from exc
        self._own = own

    def _folders(self) -> list[Path]:
        with disk.system.scandir(self.root) as entries:
            return [self.root / entry.name for entry in entries if entry.is_dir()]

    def _temporary_name(self, path: Path) -> Path:
        beside = super()._temporary_name(path)
        return beside if self._own is None else self._own / beside.name

    def _unlink(self, path: Path) -> None:
        if self._own is None:
            super()._unlink(path)
            return
        going = self._temporary_name(path)
        try:
            disk.system.replace(path, going)
        except FileNotFoundError as exc:
            if not self._is_mine():
                raise self._stale() from exc
            raise
        disk.system.unlink(going)

    def _failed(self, verb: str, path: Path, exc: OSError) -> ContinuousError:
        return super()._failed(verb, path, exc) if self._is_mine() else self._stale()

    def _is_mine(self) -> bool:
        try:
            return self._own is None or bool(disk.system.stat(self._own))
        except FileNotFoundError:
            return False
        except OSError:  # it cannot be told: what has failed says why
            return True

    def _stale(self) -> StaleRunError:
        return StaleRunError(
            f"This run does not write to {self.root} any more: {self._own} is gone. Another run of "
            "the query has taken over, or has rewound it; or somebody has removed the folder.",
            hint="The other run goes on from the last committed epoch. If there is none, start the "
            "query again.",
        )


def _remove(folder: Path) -> None:
    """What stays, as a file that is still open on NFS does, is removed by the next run."""
    with suppress(FileNotFoundError), disk.system.scandir(folder) as entries:
        for name in [entry.name for entry in entries]:
            with suppress(FileNotFoundError):
                disk.system.unlink(folder / name)
    with suppress(OSError):
        disk.system.rmdir(folder)
