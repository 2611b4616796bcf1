"""Folders of HDFS as fsspec has folders, to be looked through; nothing is read or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem

from engine.checkpoint.storage.hdfs_storage import errors, open_client
from engine.checkpoint.storage.webhdfs import RemoteError, WebHdfs
from engine.errors import CheckpointError


class HdfsFolders(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """What :mod:`engine.checkpoint.find` asks for. Paths begin with a slash.

    :param client: of its NameNodes.
    :param whole: the URL of the root, ``hdfs://namenode:8020``.
    """

    cachable = False
    root_marker = "/"
    protocol: ClassVar[tuple[str, ...]] = ("hdfs", "webhdfs")

    def __init__(self, client: WebHdfs, whole: str) -> None:
        super().__init__()
        self._client, self._whole = client, whole

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """What is right in a folder; of a file, itself.

        :raises FileNotFoundError: there is no such folder.
        :raises PermissionError: this user may not list it.
        :raises CheckpointError: HDFS does not answer.
        """
        path = self._strip_protocol(path)
        with self._errors("list", path):
            found = self._client.list(path)
        above = path.rstrip("/")
        entries = [
            _entry(f"{above}/{each['pathSuffix']}" if each["pathSuffix"] else path, each)
            for each in found
        ]
        return entries if detail else [each["name"] for each in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """What is known of a file or folder; raises as :meth:`ls`."""
        path = self._strip_protocol(path)
        with self._errors("read", path):
            return _entry(path, self._client.status(path))

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is a file or folder.

        :raises CheckpointError: HDFS does not answer.
        """
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path."""
        return f"{self._whole}{name}"

    @contextmanager
    def _errors(self, verb: str, path: str) -> Iterator[None]:
        try:
            with errors(f"{verb} {self._whole}{path}", self._client.addresses):
                yield
        except CheckpointError as error:
            cause = error.__cause__
            if isinstance(cause, RemoteError) and cause.kind == "AccessControlException":
                raise PermissionError(str(error)) from error
            raise


def open_folders(
    url: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[HdfsFolders, str]:
    """What is asked about a URL, and the path in it.

    :param storage_options: as :class:`engine.checkpoint.storage.hdfs_storage.HdfsStorage` has them.
    :raises ConfigError: the URL or an option cannot be used.
    """
    place, client = open_client(url, storage_options)
    parts = urlsplit(place.url)
    return HdfsFolders(client, f"{parts.scheme}://{parts.netloc}"), place.path


def _entry(path: str, told: Mapping[str, Any]) -> dict[str, Any]:
    kind = "file" if told["type"] == "FILE" else "directory"
    return {"name": path, "size": told["length"], "type": kind}
