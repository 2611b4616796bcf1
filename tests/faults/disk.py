"""A disk that keeps after a power failure only what was synchronised, and perhaps some of the rest.

It stands in for :mod:`os` in :data:`engine.base.durable.system`. Each file has the content that
programs see and the content that was synchronised last; each folder the names that programs see
and a list of changes since its last ``fsync``. When the power fails,

- a file that was not synchronised holds any mixture of old and new content: nothing, a part, zeros;
- of each folder's changes any number is there, counted from the oldest: journals keep the order
  within a folder, not between folders;
- a rename is one change; from one folder to another it is one in each.

Times are those of the given clock.
"""

from __future__ import annotations

import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class _Node:
    """A file or a folder."""

    def __init__(self, is_folder: bool, now_s: float) -> None:
        self.is_folder = is_folder
        self.data = bytearray()
        self.synced = b""
        self.dirty = False
        self.names: dict[str, _Node] = {}
        self.synced_names: dict[str, _Node] = {}
        self.changes: list[dict[str, _Node | None]] = []
        self.modified_s = now_s

    def change(self, names: dict[str, _Node | None]) -> None:
        _apply(self.names, names)
        self.changes.append(names)


def _apply(names: dict[str, _Node], changes: dict[str, _Node | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


Image = bytes | dict[str, Any]


def _image(node: _Node) -> Image:
    if not node.is_folder:
        return bytes(node.data)
    return {name: _image(child) for name, child in node.names.items()}


def _node(image: Image) -> _Node:
    node = _Node(isinstance(image, dict), 0.0)
    if isinstance(image, dict):
        node.names = {name: _node(child) for name, child in image.items()}
        node.synced_names = dict(node.names)
    else:
        node.data, node.synced = bytearray(image), image
    return node


class FakeDisk:
    """See the module.

    :param before: called with the name of each call that changes something, and its path, before
        it takes effect: the place to die, to sleep, or to fail.
    :param touch: called with the path of every call, looks included: the place to be slow, or down.
    :param now_s: the time of files.
    """

    def __init__(
        self,
        before: Callable[[str, str], None] = lambda call, path: None,
        now_s: Callable[[], float] = lambda: 0.0,
        touch: Callable[[str], None] = lambda path: None,
    ) -> None:
        self._before = before
        self._touch = touch
        self._now_s = now_s
        self._root = _Node(True, 0.0)
        self._open: dict[int, tuple[_Node, str, list[int]]] = {}
        self._next_descriptor = 1000

    # -- what os has --------------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        path = os.fspath(path)
        self._touch(path)
        if flags & os.O_CREAT:
            self._before("create", path)
            folder, name = self._parent(path)
            if name in folder.names:
                raise _error(errno.EEXIST, path)
            node = _Node(False, self._now_s())
            folder.change({name: node})
        else:
            node = self._find(path)
        self._next_descriptor += 1
        self._open[self._next_descriptor] = (node, path, [0])
        return self._next_descriptor

    def fdopen(self, descriptor: int, mode: str) -> _File:
        return _File(self, descriptor)

    def write(self, descriptor: int, data: Any) -> int:
        node, path, _ = self._opened(descriptor)
        data = bytes(data)
        self._touch(path)
        try:
            self._before("write", path)
        except BaseException:
            if descriptor in self._open:  # it was half done
                node.data += data[: len(data) // 2]
                node.dirty = True
            raise
        node.data += data
        node.dirty = True
        node.modified_s = self._now_s()
        return len(data)

    def read(self, descriptor: int, size: int) -> bytes:
        node, path, position = self._opened(descriptor)
        if node.is_folder:
            raise _error(errno.EISDIR, path)
        part = bytes(node.data[position[0] : position[0] + size])
        position[0] += len(part)
        return part

    def fsync(self, descriptor: int) -> None:
        node, path, _ = self._opened(descriptor)
        self._touch(path)
        self._before("fsync", path)
        if node.is_folder:
            node.synced_names, node.changes = dict(node.names), []
        else:
            node.synced, node.dirty = bytes(node.data), False

    def fstat(self, descriptor: int) -> Any:
        return _stat(self._opened(descriptor)[0])

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def link(self, source: Any, target: Any) -> None:
        self._touch(os.fspath(target))
        self._before("link", os.fspath(target))
        node = self._find(source)
        folder, name = self._parent(target)
        if name in folder.names:
            raise _error(errno.EEXIST, target)
        folder.change({name: node})

    def replace(self, source: Any, target: Any) -> None:
        self._touch(os.fspath(target))
        self._before("replace", os.fspath(target))
        node = self._find(source)
        folder, name = self._parent(target)
        before, old_name = self._parent(source)
        if before is folder:
            folder.change({old_name: None, name: node})
        else:
            assert not node.is_folder, "folders are only renamed within their own"
            folder.change({name: node})
            before.change({old_name: None})

    def unlink(self, path: Any) -> None:
        self._touch(os.fspath(path))
        self._before("unlink", os.fspath(path))
        folder, name = self._parent(path)
        if name not in folder.names:
            raise _error(errno.ENOENT, path)
        folder.change({name: None})

    def rmdir(self, path: Any) -> None:
        self._touch(os.fspath(path))
        self._before("rmdir", os.fspath(path))
        if self._find(path).names:
            raise _error(errno.ENOTEMPTY, path)
        folder, name = self._parent(path)
        folder.change({name: None})

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        self._touch(os.fspath(path))
        self._before("mkdir", os.fspath(path))
        folder, name = self._parent(path)
        if name in folder.names:
            raise _error(errno.EEXIST, path)
        folder.change({name: _Node(True, self._now_s())})

    def stat(self, path: Any) -> Any:
        self._touch(os.fspath(path))
        return _stat(self._find(path))

    @contextmanager
    def scandir(self, path: Any) -> Iterator[list[SimpleNamespace]]:
        self._touch(os.fspath(path))
        node = self._find(path)
        if not node.is_folder:
            raise _error(errno.ENOTDIR, path)
        yield [
            SimpleNamespace(
                name=name,
                is_file=lambda each=each: not each.is_folder,
                is_dir=lambda each=each: each.is_folder,
                stat=lambda each=each: _stat(each),
            )
            for name, each in list(node.names.items())
        ]

    # -- what a test has ----------------------------------------------------------------------

    def lose_power(self, chance: random.Random) -> None:
        """Every program on this machine is gone; what was not synchronised, perhaps, too."""
        self._open.clear()
        seen: set[int] = set()

        def settle(node: _Node) -> None:
            if id(node) in seen:
                return
            seen.add(id(node))
            if node.is_folder:
                kept = chance.randint(0, len(node.changes))
                for change in node.changes[:kept]:
                    _apply(node.synced_names, change)
                node.names, node.changes = dict(node.synced_names), []
                for child in node.names.values():
                    settle(child)
            elif node.dirty:
                node.data = bytearray(_torn(node.synced, bytes(node.data), chance))
                node.synced, node.dirty = bytes(node.data), False

        settle(self._root)

    def content(self, path: str) -> bytes:
        """A file's content, as programs see it."""
        return bytes(self._find(path).data)

    def overwrite(self, path: str, data: bytes) -> None:
        """Damage a file."""
        self._find(path).data = bytearray(data)

    def image(self) -> Image:
        """What is on it, all of it synchronised."""
        return _image(self._root)

    def restore(self, image: Image) -> None:
        """Put an image back."""
        self._open.clear()
        self._root = _node(image)

    def files(self, folder: str) -> list[str]:
        """The paths of all files below a folder."""
        found: list[str] = []

        def walk(node: _Node, path: str) -> None:
            for name, child in node.names.items():
                if child.is_folder:
                    walk(child, f"{path}/{name}")
                else:
                    found.append(f"{path}/{name}")

        walk(self._find(folder), folder.rstrip("/"))
        return found

    def _opened(self, descriptor: int) -> tuple[_Node, str, list[int]]:
        if descriptor not in self._open:  # its process did not survive the power failure
            self._before("use", "")
            raise _error(errno.EBADF, str(descriptor))
        return self._open[descriptor]

    def _find(self, path: Any) -> _Node:
        node = self._root
        for part in os.fspath(path).split("/"):
            if not part:
                continue
            if not node.is_folder:
                raise _error(errno.ENOTDIR, path)
            if part not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[part]
        return node

    def _parent(self, path: Any) -> tuple[_Node, str]:
        folder, _, name = os.fspath(path).rpartition("/")
        node = self._find(folder)
        if not node.is_folder:
            raise _error(errno.ENOTDIR, path)
        return node, name


class _File:
    """A file object with a buffer. Unlike Python's own it writes nothing when it is forgotten: the
    buffer of a killed process is gone."""

    def __init__(self, disk: FakeDisk, descriptor: int) -> None:
        self._disk, self._descriptor = disk, descriptor
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: bytes) -> int:
        self._buffer += data
        return len(data)

    def tell(self) -> int:
        """What is appended to a new file is all that is in it."""
        return int(self._disk.fstat(self._descriptor).st_size) + len(self._buffer)

    def flush(self) -> None:
        if self._buffer:
            data, self._buffer = bytes(self._buffer), bytearray()
            self._disk.write(self._descriptor, data)

    def close(self) -> None:
        self.flush()
        self._disk._open.pop(self._descriptor, None)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stat(node: _Node) -> Any:
    return SimpleNamespace(
        st_mode=stat.S_IFDIR if node.is_folder else stat.S_IFREG,
        st_size=len(node.data),
        st_mtime=node.modified_s,
        st_mtime_ns=int(node.modified_s * 1e9),
    )


def _torn(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """What may be on the disk of a write from ``old`` to ``new`` that was not synchronised."""
    cut = chance.randint(0, len(new))
    return chance.choice([old, new, new[:cut], new[:cut] + bytes(len(new) - cut), bytes(len(new))])


def _error(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), os.fspath(path))
