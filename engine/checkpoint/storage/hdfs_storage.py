"""A checkpoint on HDFS.

A file is created in these steps, so that it appears whole or not at all, and once:

1. write ``.<name>.<uuid>.tmp`` beside it; the DataNodes have it when the call returns;
2. rename it: the NameNode refuses a name that is taken.

A crash leaves at most a temporary file: no log lists it, and retention removes it. If an answer is
lost, the writer does not know whether its file is there: it stops, and the next start looks.

HDFS keeps its checksums itself: there are no twins.
"""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from engine.checkpoint.storage.contract import PART_BYTES, FileInfo, Storage
from engine.checkpoint.storage.hadoop_conf import Place, find_place, hadoop_conf
from engine.checkpoint.storage.webhdfs import RemoteError, WebHdfs
from engine.errors import CheckpointError, ConfigError

TIMEOUT_S = 30.0
_OPTIONS = ("user", "timeout")
_HINTS = {
    "AccessControlException": "Give this user write access, or name another: the storage option "
    "user, or HADOOP_USER_NAME.",
    "SafeModeException": "The NameNode is in safe mode: start the query again when it has left it.",
    "no WebHDFS": "Another server answers in its place, as a proxy that asks for a login does.",
    "HTTP 401": "It asks for Kerberos, which checkpoints do not speak.",
}


class HdfsStorage(Storage):
    """See the module.

    :param url: as :func:`engine.checkpoint.storage.hadoop_conf.find_place` takes it.
    :param storage_options: ``user``, by default HADOOP_USER_NAME or that of this process, and
        ``timeout``, in seconds.
    :raises ConfigError: the URL or an option cannot be used.
    """

    at_once_max = 8

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        place, self._client = open_client(url, storage_options)
        self.url, self._root, self._addresses = place.url, place.path.rstrip("/"), place.addresses

    def read(self, name: str) -> bytes:
        with self._errors("read", name):
            return self._client.open(self._full(name))

    def _parts(self, name: str, bytes_max: int = PART_BYTES) -> Iterator[bytes]:
        size = self.info(name).size
        for start in range(0, size, bytes_max):
            with self._errors("read", name):
                length = min(bytes_max, size - start)
                part = self._client.open_part(self._full(name), start, length)
            yield part

    def create(self, name: str, data: bytes) -> bool:
        return self._write("create", name, data, overwrite=False)

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._write("replace", name, data, overwrite=True)

    def delete(self, name: str) -> None:
        with self._errors("delete", name):
            self._client.delete(self._full(name))

    def list(self, folder: str) -> list[FileInfo]:
        return [_info(entry) for entry in self._entries(folder) if entry["type"] == "FILE"]

    def files_below(self, folder: str) -> Mapping[str, int]:
        sizes = {}
        for entry in self._entries(folder):
            name = str(entry["pathSuffix"])
            if entry["type"] == "FILE":
                sizes[name] = int(entry["length"])
            else:
                below = self.files_below(f"{folder}/{name}" if folder else name)
                sizes.update((f"{name}/{each}", below[each]) for each in below)
        return sizes

    def info(self, name: str) -> FileInfo:
        with self._errors("read", name):
            found = self._client.status(self._full(name))
        if found["type"] != "FILE":
            raise FileNotFoundError(f"{self.path(name)} is not a file")
        return _info({**found, "pathSuffix": name.rpartition("/")[2]})

    @property
    def identity(self) -> dict[str, str]:
        return {"protocol": "hdfs", "endpoint": ",".join(self._addresses)}

    @property
    def has_twins(self) -> bool:
        return False

    def delete_all(self) -> None:
        with self._errors("delete", ""):
            self._client.delete(self._full(""), recursive=True)

    def _write(self, verb: str, name: str, data: bytes, *, overwrite: bool) -> bool:
        folder, slash, base = self._full(name).rpartition("/")
        temporary = f"{folder}{slash}.{base}.{uuid.uuid4()}.tmp"
        written = False
        with self._errors(verb, name):
            try:
                self._client.write(temporary, data)
                written = self._client.rename(temporary, self._full(name), overwrite=overwrite)
            finally:
                if not written:
                    with suppress(RemoteError, OSError):
                        self._client.delete(temporary)
        return written

    def _entries(self, folder: str) -> Sequence[Mapping[str, Any]]:
        with self._errors("list", folder):
            try:
                found = self._client.list(self._full(folder))
            except FileNotFoundError:
                return []
        # Of a file, its own status without a name.
        return [entry for entry in found if entry["pathSuffix"]]

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root or "/"

    def _errors(self, verb: str, name: str) -> AbstractContextManager[None]:
        return errors(f"{verb} {self.path(name)}", self._addresses)


def open_client(url: str, storage_options: Mapping[str, Any] | None) -> tuple[Place, WebHdfs]:
    """Where a URL is, and a client of its NameNodes; as :class:`HdfsStorage`."""
    options = dict(storage_options or {})
    for key in options:
        if key not in _OPTIONS:
            raise ConfigError(
                f"{url} has no storage option {key!r}.", hint="It has user and timeout."
            )
    place = find_place(url, hadoop_conf())
    user = options.get("user") or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    timeout_s = _seconds(options.get("timeout", TIMEOUT_S))
    return place, WebHdfs(place.addresses, str(user), timeout_s)


@contextmanager
def errors(what: str, addresses: Sequence[str]) -> Iterator[None]:
    """What goes wrong with HDFS, but for a missing file, as an error of the checkpoint.

    :param what: is tried: ``read hdfs://...``.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (RemoteError, OSError) as error:
        kind = error.kind if isinstance(error, RemoteError) else ""
        raise CheckpointError(
            f"Cannot {what}: {error}.",
            hint=_HINTS.get(
                kind,
                f"Are {', '.join(addresses)} and the DataNodes reached from here, and is WebHDFS "
                "on?",
            ),
        ) from error


def _seconds(given: Any) -> float:
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"The storage option timeout is {given!r}.", hint="Give seconds, over 0.")
    return seconds


def _info(entry: Mapping[str, Any]) -> FileInfo:
    return FileInfo(
        str(entry["pathSuffix"]), int(entry["length"]), entry["modificationTime"] / 1000
    )
