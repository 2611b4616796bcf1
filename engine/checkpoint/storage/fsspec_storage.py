"""A checkpoint anywhere fsspec reaches: object stores, HDFS, the memory of this process.

In object stores an object appears whole or not at all; on file systems behind fsspec (HDFS, SFTP) a
crash may leave a torn one, which the restart table sets aside if it is the newest.

Create-if-absent is fsspec's ``pipe_file(mode="create")``, one conditional put:

======  ======================  ====================================
store   package                 condition
======  ======================  ====================================
S3      s3fs >= 2024.12         ``If-None-Match: *``
GCS     gcsfs >= 2024.12        ``ifGenerationMatch=0``
ABFS    adlfs >= 2024.12        ``If-None-Match: *``
======  ======================  ====================================

Older ones take ``mode`` for an option of the put and overwrite, or refuse it. Whether a store
honours it is tried by :func:`engine.checkpoint.storage.opening.prove_create_if_absent`. If an
answer is lost and the client asks again, the store says that the object is there, and the writer
takes its own for another's: it stops, and the next start finds its entry.

Each call here is one request to an object store, if what it asks for is there. Hadoop keeps no
checksum twins in object stores, so none are looked for.
"""

from __future__ import annotations

import importlib.metadata
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urlsplit

from engine.checkpoint.storage.contract import PART_BYTES, FileInfo, Storage, checksum_twin
from engine.checkpoint.storage.s3_role import ROLE, with_role
from engine.errors import CheckpointError, ConfigError

# fsspec's memory file system looks and then writes: threads must not come between.
_memory_lock = threading.Lock()

# s3fs knows the answer of Amazon's S3; others word it differently.
_S3_EXISTS = ("PreconditionFailed", "412")
# Two conditional puts at once: neither may have won yet, so S3 asks to try again.
_S3_CONFLICT = ("ConditionalRequestConflict", "OperationAborted", "409")
_CONFLICTS_MAX = 20

OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""Their schemes."""
# Where s3fs (which connects for it), gcsfs and adlfs keep the address that they use.
_ENDPOINTS = ("s3.meta.endpoint_url", "_location", "service_client.url")
_TIMES = ("mtime", "modified", "LastModified", "last_modified", "updated", "created")


def open_file_system(url: str, storage_options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """What fsspec has for a URL, and the place in it.

    :raises ConfigError: fsspec does not know the scheme, or lacks the package for it; or a slash is
        missing behind it.
    """
    import fsspec

    refuse_one_slash(url)
    options = dict(storage_options or {})
    if urlsplit(url).scheme in OBJECT_STORES:
        # fsspec would keep listings, and a look for a claim must see what is there now.
        options.setdefault("use_listings_cache", False)
    try:
        if urlsplit(url).scheme in ("s3", "s3a"):
            options.setdefault("max_concurrency", 1)  # else it asks for a size before it reads
            options["config_kwargs"] = _s3_config(url, options)
        if ROLE in options:
            options = with_role(options)
        fs, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as exc:
        raise ConfigError(
            f"{url} cannot be opened: {exc}.", hint="Install the named package."
        ) from exc
    except ValueError as exc:
        raise ConfigError(
            f"{url} cannot be opened: {exc}.",
            hint="Give a local path, or a URL that fsspec knows, e.g. s3://bucket/path.",
        ) from exc
    return fs, root


def _s3_config(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the client: those that are given, or are in fsspec's own configuration."""
    import fsspec

    found = fsspec.config.apply_config(fsspec.get_filesystem_class("s3"), dict(options))
    given = found.get("config_kwargs") or {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{url} cannot be opened: config_kwargs is a {type(given).__name__}, no mapping.",
            hint="Name its settings, each by itself: config_kwargs.max_pool_connections.",
        )
    # By itself the client has 10: others wait.
    return {"max_pool_connections": FsspecStorage.at_once_max, **given}


def refuse_one_slash(url: str) -> None:
    """Refuse ``s3:/bucket/path``, of which fsspec makes a local folder.

    :raises ConfigError: it is of that kind.
    """
    scheme, _, rest = url.partition(":")
    if rest.startswith("/") and "://" not in url and re.fullmatch(r"[a-zA-Z][\w+.-]*", scheme):
        if scheme in ("file", "local"):
            return
        raise ConfigError(
            f"{url} has one slash behind its scheme.",
            hint=f"There are two, and then the bucket or the host: {scheme}:/{rest}",
        )


class FsspecStorage(Storage):
    """See the module.

    :param fs: an ``fsspec.AbstractFileSystem``.
    :param root: the folder inside of it.
    :param url: how to open it again.
    """

    at_once_max = 32

    def __init__(self, fs: Any, root: str, url: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self.url = url
        self._creating: Any = _memory_lock if fs.protocol == "memory" else nullcontext()
        # "s3" or ("s3", "s3a").
        self._protocols = [fs.protocol] if isinstance(fs.protocol, str) else list(fs.protocol)
        self._is_object_store = not OBJECT_STORES.isdisjoint(self._protocols)

    @classmethod
    def open(cls, url: str, storage_options: Mapping[str, Any] | None = None) -> FsspecStorage:
        """As :func:`open_file_system`."""
        fs, root = open_file_system(url, storage_options)
        return cls(fs, root, url)

    def read(self, name: str) -> bytes:
        with self._errors("read", name):
            return bytes(self._fs.cat_file(self._full(name)))

    def _parts(self, name: str, bytes_max: int = PART_BYTES) -> Iterator[bytes]:
        size = self.info(name).size
        for start in range(0, size, bytes_max):
            with self._errors("read", name):
                end = min(start + bytes_max, size)
                part = bytes(self._fs.cat_file(self._full(name), start=start, end=end))
            yield part

    def create(self, name: str, data: bytes) -> bool:
        with self._errors("create", name):
            for attempt in range(_CONFLICTS_MAX):
                try:
                    with self._creating:
                        self._put(name, data, mode="create")
                    return True
                except FileExistsError:
                    return False
                except OSError as exc:
                    code = _s3_code(exc)
                    if code in _S3_EXISTS:
                        return False
                    if code not in _S3_CONFLICT or attempt == _CONFLICTS_MAX - 1:
                        raise
        raise AssertionError("the last attempt returns or raises")

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self._errors("replace", name):
            self._put(name, data)
            self._remove_twin(name)

    def delete(self, name: str) -> None:
        with self._errors("delete", name):
            self._remove(name)
            self._remove_twin(name)

    def list(self, folder: str) -> list[FileInfo]:
        path = self._full(folder)
        with self._errors("list", folder):
            self._fs.invalidate_cache(path)
            try:
                found = self._fs.ls(path, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [_info(entry) for entry in found if entry["type"] == "file"]

    def files_below(self, folder: str) -> Mapping[str, int]:
        path = self._full(folder)
        with self._errors("list", folder):
            self._fs.invalidate_cache()
            root = self._fs._strip_protocol(path).rstrip("/")
            found = self._fs.find(path, detail=True)
        return {str(name)[len(root) + 1 :]: _size(entry) for name, entry in found.items()}

    def info(self, name: str) -> FileInfo:
        with self._errors("read", name):
            path = self._full(name)
            self._fs.invalidate_cache(self._fs._parent(path))
            found = self._fs.info(path)
        if found["type"] != "file":
            raise FileNotFoundError(f"{self.path(name)} is not a file")
        return _info(found)

    @property
    def identity(self) -> dict[str, str]:
        kind = type(self._fs)
        package = kind.__module__.partition(".")[0]
        found = {
            "protocol": self._protocols[0],
            "implementation": f"{kind.__module__}:{kind.__name__}",
        }
        with suppress(importlib.metadata.PackageNotFoundError):
            found["version"] = f"{package} {importlib.metadata.version(package)}"
        with self._errors("reach", ""):
            endpoint = _endpoint(self._fs)
        if endpoint is not None:  # without a name, a password and a signature
            parts = urlsplit(endpoint)
            found["endpoint"] = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return found

    def delete_all(self) -> None:
        with self._errors("delete", ""), suppress(FileNotFoundError):
            self._fs.rm(self._root, recursive=True)

    @property
    def has_twins(self) -> bool:
        return not self._is_object_store

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _put(self, name: str, data: bytes, **mode: str) -> None:
        path = self._full(name)
        try:
            self._fs.pipe_file(path, data, **mode)
        except FileNotFoundError as exc:
            # Only file systems with real folders ask for one.
            if self._is_object_store:
                raise CheckpointError(
                    f"Cannot write {self.path(name)}: there is no such bucket or container.",
                    hint="Create it, or correct the URL.",
                ) from exc
            self._fs.makedirs(self._fs._parent(path), exist_ok=True)
            self._fs.pipe_file(path, data, **mode)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._full(name))

    def _remove_twin(self, name: str) -> None:
        if self.has_twins:
            self._remove(checksum_twin(name))

    @contextmanager
    def _errors(self, verb: str, name: str) -> Iterator[None]:
        """Foreign errors become ours, once."""
        try:
            yield
        except (FileNotFoundError, CheckpointError):
            raise
        except Exception as exc:
            raise CheckpointError(
                f"Cannot {verb} {self.path(name)}: {type(exc).__name__}: {exc}.",
                hint="Check the storage, its credentials and the network.",
            ) from exc


def _endpoint(fs: Any) -> str | None:
    """Where requests go, whoever said so: an option, the environment, or the client's own files."""
    for place in _ENDPOINTS:
        with suppress(AttributeError):
            return str(attrgetter(place)(fs))
    return None


def _s3_code(exc: OSError) -> str | None:
    """S3's own code of an error, below the one that s3fs has made of it."""
    response = getattr(exc.__cause__, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _info(entry: Mapping[str, Any]) -> FileInfo:
    name = str(entry["name"]).rstrip("/").rpartition("/")[2]
    return FileInfo(name, _size(entry), modified_s(entry))


def _size(entry: Mapping[str, Any]) -> int:
    return int(entry.get("size") or 0)


def modified_s(entry: Mapping[str, Any]) -> float:
    """When what fsspec has listed was modified last, since 1970; 0.0 if it does not tell."""
    for key in _TIMES:
        value = entry.get(key)
        if isinstance(value, str):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
            return aware.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
    return 0.0
