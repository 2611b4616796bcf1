"""From a path or a URL to a storage, and whether a storage keeps its promise."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine.base.locations import split_url
from engine.checkpoint.storage.contract import Storage
from engine.errors import ConfigError

_RACERS = 4


def given_location(url: str) -> str:
    """A location without the blanks around it.

    :raises ConfigError: it is empty.
    """
    text = str(url).strip()
    if not text:
        raise ConfigError("The checkpoint location is empty.", hint="Give a folder or a URL.")
    return text


def open_storage(url: str, storage_options: Mapping[str, Any] | None = None) -> Storage:
    """Open a folder by path or URL; it need not exist.

    :param url: a local path, ``file:///...``, ``hdfs://...``, or any URL that fsspec knows:
        ``s3://bucket/path``.
    :param storage_options: handed to fsspec: credentials, endpoint; those of HDFS are in
        :mod:`engine.checkpoint.storage.hdfs_storage`.
    :raises ConfigError: the URL cannot be used.
    """
    text = given_location(url)
    parts = split_url(text, "The checkpoint location")
    if parts.scheme in ("", "file", "local"):
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(
                f"{text} names the host {parts.netloc!r}.",
                hint=f"A local folder has three slashes: file:///{parts.netloc}{parts.path}",
            )
        from engine.checkpoint.storage.local_storage import LocalStorage

        path = text if not parts.scheme else text.partition(":")[2]
        if path.startswith("//"):
            path = path[2:].removeprefix("localhost")
        return LocalStorage(path)
    if parts.scheme in ("hdfs", "webhdfs"):
        from engine.checkpoint.storage.hdfs_storage import HdfsStorage

        return HdfsStorage(text, storage_options)
    from engine.checkpoint.storage.fsspec_storage import FsspecStorage

    return FsspecStorage.open(text, storage_options)


def prove_create_if_absent(storage: Storage) -> None:
    """Try whether :meth:`Storage.create` keeps its promise here, and clean up: one after another,
    and several at once.

    Some stores ignore the condition of a conditional write: two runs could then own one checkpoint.

    :raises ConfigError: it does not hold.
    :raises CheckpointError: the storage cannot be written.
    """
    probe = f"control/probe-{uuid.uuid4()}"
    raced = f"control/probe-{uuid.uuid4()}"
    try:
        first = storage.create(probe, b"first")
        second = storage.create(probe, b"second")
        content = storage.read(probe)
        start = threading.Barrier(_RACERS)

        def race(number: int) -> bool:
            start.wait()
            return storage.create(raced, b"%d" % number)

        with ThreadPoolExecutor(_RACERS) as pool:
            created = list(pool.map(race, range(_RACERS)))
        winner = storage.read(raced)
    finally:
        storage.delete(probe)
        storage.delete(raced)
    fault = None
    if not first or second or content != b"first":
        fault = (
            f"a second create of the same file {'succeeded' if second else 'failed'}, and the "
            f"file then held {content!r}"
        )
    elif created.count(True) != 1 or winner != b"%d" % created.index(True):
        fault = f"of {_RACERS} creates of the same file at once, {created.count(True)} succeeded"
    if fault is not None:
        raise ConfigError(
            f"{storage.url} does not keep create-if-absent: {fault}.",
            hint="Two runs could corrupt this checkpoint. Use storage with conditional writes "
            "(a local disk, S3, GCS, ABFS).",
        )
