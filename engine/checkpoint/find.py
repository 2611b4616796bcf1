"""Many checkpoints: by one pattern, ``s3://bucket/checkpoints/*``, or all below a folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.base.daemon_threads import DaemonThreads, together
from engine.base.locations import split_url
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.rewind import ASIDE
from engine.checkpoint.search import Search
from engine.checkpoint.storage.fsspec_storage import open_file_system
from engine.errors import CheckpointError, ContinuousError

DEPTH_MAX = 4
"""How many folders below another one a checkpoint may lie."""
FOLDERS_MAX = 100_000
"""How many folders are looked into: ten thousand queries, each in a folder of a project."""
AT_ONCE = 32
"""So many folders are looked at at the same time: each may be a round trip to somewhere else."""
LOGS_SUFFIX = ".logs"
"""A folder beside a checkpoint, of its name and this, holds the output of its query's processes."""
_LOGS = ("offsets", "commits")


def is_pattern(location: str) -> bool:
    """Whether a location stands for all checkpoints that it matches."""
    return "*" in location


def find_checkpoints(pattern: str, storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """The locations of all checkpoints that match, sorted. Folders that no query has used are left
    out; one whose use cannot be told is not.

    :param pattern: a path or URL in which ``*`` stands for any part of one name, and ``**`` for any
        folders; see fsspec's ``glob``.
    :raises ConfigError: the scheme is not known, or the package for it is missing.
    :raises CheckpointError: the storage cannot be opened, or listed.
    """
    fs, path = _open(pattern, storage_options)
    try:
        fs.invalidate_cache()
        found = fs.glob(path, detail=True)
    except FileNotFoundError:
        return []
    except Exception as exc:
        raise _cannot_list(pattern, exc) from exc
    local = "file" in ([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
    folders = sorted(
        name
        for name, entry in found.items()
        # What a rewind has moved aside looks like a checkpoint, and stays.
        if entry["type"] == "directory" and name.rstrip("/").split("/")[-2:-1] != [ASIDE]
    )
    locations = [name if local else fs.unstrip_protocol(name) for name in folders]
    used = together([partial(_is_used, each, storage_options) for each in locations], AT_ONCE)
    return [each for each, is_used in zip(locations, used, strict=True) if is_used]


def _is_used(location: str, storage_options: Mapping[str, Any] | None) -> bool:
    try:
        return Checkpoint(location, storage_options).exists()
    except CheckpointError:
        return True  # whoever opens it meets the error, and says which one it is


@dataclass(frozen=True)
class Folder:
    """A folder in which checkpoints are looked for.

    :param top: where the search began, as it was asked for; ``relative`` is the way from there, and
        ``depth`` how many folders that are.
    """

    fs: Any
    path: str
    top: str
    relative: str
    depth: int
    storage_options: Mapping[str, Any] | None

    @classmethod
    def open(cls, top: str, storage_options: Mapping[str, Any] | None = None) -> Folder:
        """The folder where a search begins.

        :raises ConfigError: the scheme is not known, or the package for it is missing.
        :raises CheckpointError: the storage cannot be opened.
        """
        fs, path = _open(top, storage_options)
        return cls(fs, path, top, "", 0, storage_options)

    @property
    def name(self) -> str:
        """Of the folder, in the one above."""
        return self.relative.rpartition("/")[2]

    def checkpoint(self) -> Checkpoint:
        """The checkpoint that may be in it."""
        return Checkpoint(f"{self.top.rstrip('/')}/{self.relative}", self.storage_options)

    def exists(self) -> bool:
        """Whether it is there; in an object store, whether anything is below it.

        :raises CheckpointError: the storage does not answer.
        """
        try:
            return bool(self.fs.exists(self.path))
        except Exception as exc:
            raise _cannot_list(self.top, exc) from exc

    def is_folder(self) -> bool:
        """Whether it is there, and no file.

        :raises CheckpointError: the storage does not answer.
        """
        try:
            return bool(self.fs.isdir(self.path))
        except Exception as exc:
            raise _cannot_list(self.top, exc) from exc

    def below(self) -> list[Folder] | None:
        """The folders in it, without those of logs; None: it is a checkpoint. Told by the names in
        it, with one listing.

        :raises CheckpointError: the storage cannot be listed.
        """
        try:
            listing = self.fs.ls(self.path, detail=True)
        except FileNotFoundError:
            return []  # removed since it was listed, or not there yet
        except Exception as exc:
            if self.depth and isinstance(exc, (NotADirectoryError, PermissionError)):
                return []  # none of our business; but where the search began, it is
            where = f"{self.top.rstrip('/')}/{self.relative}" if self.relative else self.top
            raise _cannot_list(where, exc) from exc
        kinds = {
            str(entry["name"]).rstrip("/").rpartition("/")[2]: entry["type"] for entry in listing
        }
        names = kinds.keys()
        if ("metadata" in names and names & {*_LOGS, "control"}) or names >= set(_LOGS):
            return None
        return [
            replace(
                self,
                path=f"{self.path.rstrip('/')}/{name}",
                relative=f"{self.relative}/{name}".strip("/"),
                depth=self.depth + 1,
            )
            for name, kind in kinds.items()
            if kind == "directory" and not _holds_logs(name, kinds)
        ]


class CheckpointSearch:
    """Finds the checkpoints in a folder and below it: at most :data:`DEPTH_MAX` folders deep, in
    the first :data:`FOLDERS_MAX` folders. Told by the names in a folder alone, one listing each.

    :param top: names are relative to it; it is ``""`` itself.
    :param threads: list folders, as many at the same time as there are threads.
    :ivar found: the checkpoints, in no order; others may look at it while the search goes on.
    :ivar looked_into: so many folders, likewise.
    :ivar errors: of folders that could not be listed; what is below them is not known. Of the top
        also that it cannot be opened, or that there are more folders.
    """

    def __init__(
        self,
        top: str,
        threads: DaemonThreads,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._top, self._threads, self._storage_options = top, threads, storage_options
        self.found: list[str] = []
        self.looked_into = 0
        self.errors: dict[str, Exception] = {}

    def run(self) -> None:
        """Search to the end."""
        looks: Search[list[Folder] | None] = Search(
            lambda _, look: self._threads.submit(look), FOLDERS_MAX
        )
        looks.ask("", self._look_at_top)
        while (ended := looks.take()) is not None:
            relative, look = ended
            self.looked_into += 1
            try:
                below = look.result()
            except Exception as exc:  # of whichever storage; it darkens no other folder
                self.errors[relative] = exc
                continue
            if below is None:
                self.found.append(relative)  # what is inside of it is its own
            for folder in below or ():
                if folder.depth <= DEPTH_MAX and not looks.ask(folder.relative, folder.below):
                    self.errors[""] = CheckpointError(
                        f"More than {FOLDERS_MAX} folders in {self._top} are not looked into.",
                        hint="Name folders further below, or a pattern.",
                    )

    def _look_at_top(self) -> list[Folder] | None:
        return Folder.open(self._top, self._storage_options).below()


def _holds_logs(name: str, beside: Collection[str]) -> bool:
    return name.endswith(LOGS_SUFFIX) and name.removesuffix(LOGS_SUFFIX) in beside


def _open(location: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """A file system as fsspec has them, and the path in it."""
    try:
        if split_url(location, "The checkpoint location").scheme in ("hdfs", "webhdfs"):
            from engine.checkpoint.storage.hdfs_folders import open_folders

            return open_folders(location, storage_options)
        return open_file_system(location, storage_options)
    except ContinuousError:
        raise
    except Exception as exc:  # of whichever package
        raise _cannot_list(location, exc) from exc


def _cannot_list(location: str, exc: Exception) -> ContinuousError:
    if isinstance(exc, ContinuousError):
        return exc
    return CheckpointError(
        f"Cannot list {location}: {type(exc).__name__}: {exc}.",
        hint="Check the storage, its credentials and the network.",
    )
