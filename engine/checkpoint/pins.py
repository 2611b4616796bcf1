"""Pins: committed epochs with a name, which a query can be rewound to whatever retention removes.

::

    pins/<name>    {"epoch":7,"pinned_at_ms":1795174660561,"offsets":"v1\\n...","commit":"v1\\n...",
                    "sink_position":null}

A pin is a copy of the epoch's entries in both logs, so the logs stay without gaps while retention
takes their oldest entries as ever. ``sink_position`` is what the sink needs to find that epoch
again when its own log has been compacted, see :mod:`engine.checkpoint.rewind`. A rewind takes the
pins of later epochs along: what they name is not what the query commits under those numbers next.
The files that hold the state behind a pinned epoch stay where they are: retention asks the pins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, TypeVar

from engine.base.json_text import JSON, dump, load_object
from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.noted_state import noted_in
from engine.checkpoint.rewound import is_rewound_since, last_rewind
from engine.checkpoint.storage.contract import FileInfo, Storage
from engine.errors import CheckpointCorruptError, CheckpointError, ConfigError

FOLDER = "pins"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_BEGINNING = re.compile(rb'{"epoch":(\d+),"pinned_at_ms":(\d+),')
_BEGINNING_BYTES = 128
_SHORT_BYTES = 1 << 12
"""A pin that is no longer is read as a whole: elsewhere, to read a part takes two calls."""


@dataclass(frozen=True)
class PinnedEpoch:
    """Which epoch a pin keeps.

    :param pinned_at_ms: since 1970.
    """

    name: str
    epoch: int
    pinned_at_ms: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON, for people: name, epoch, time."""
        return {"name": self.name, "epoch": self.epoch, "pinned_at_ms": self.pinned_at_ms}


@dataclass(frozen=True)
class Pin(PinnedEpoch):
    """A pinned epoch with what the pin holds of it.

    :param offsets: the epoch's entry in the offset log, as it is.
    :param commit: the epoch's entry in the commit log, as it is.
    """

    offsets: str
    commit: str
    sink_position: JSON = None

    def serialize(self) -> bytes:
        """Without the name, which is the file's."""
        return dump({key: value for key, value in asdict(self).items() if key != "name"}).encode()


_FIELDS = [field.name for field in fields(Pin)]
Found = TypeVar("Found", bound=PinnedEpoch)


def add_pin(
    checkpoint: CheckpointFolder, name: str, epoch: int, now_ms: int, sink_position: JSON = None
) -> Pin:
    """Pin a committed epoch. Needs no lease: a query may run.

    :raises ConfigError: the name cannot be used or belongs to another epoch, or the epoch is not
        committed or was removed by retention.
    :raises CheckpointError: an entry is unreadable, the storage cannot be written, or the query is
        rewound at the same time.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a pin.",
            hint="Use letters, digits, dots, dashes and underscores; begin with one of the first "
            "two.",
        )
    storage = checkpoint.storage
    rewound = last_rewind(storage)
    offsets, commit = committed_entries(checkpoint, epoch)
    pin = Pin(name, epoch, now_ms, offsets, commit, sink_position)
    if not storage.create(f"{FOLDER}/{name}", pin.serialize()):
        known = get_pin(storage, name)
        if (known.epoch, known.offsets) != (epoch, offsets):
            raise ConfigError(
                f"The pin {name!r} is at epoch {known.epoch} already.",
                hint=f"Choose another name, or remove it: python -m engine unpin "
                f"{checkpoint.url} {name}",
            )
        return known
    # A rewind moves the pins when it has moved the entries: was this one too late for it?
    if is_rewound_since(storage, rewound):
        storage.delete(f"{FOLDER}/{name}")
        raise CheckpointError(
            f"{checkpoint.url} was rewound while epoch {epoch} was pinned, or a rewind is not over "
            "yet.",
            hint="Pin the epoch again, if it is still there when the rewind is over.",
            epoch=epoch,
        )
    # Retention asks the pins when it has removed the entries: was this one too late for it?
    if noted_in(offsets) and not storage.exists(f"{checkpoint.commits.name}/{epoch}"):
        storage.delete(f"{FOLDER}/{name}")
        raise not_available(checkpoint, epoch)
    return pin


def get_pin(storage: Storage, name: str) -> Pin:
    """A pin by its name.

    :raises ConfigError: there is none; lists those that are there.
    :raises CheckpointCorruptError: it is unreadable.
    """
    try:
        if not _NAME.fullmatch(name):
            raise FileNotFoundError(name)
        data = storage.read(f"{FOLDER}/{name}")
    except FileNotFoundError:
        known = ", ".join(sorted(_names(storage))) or "none"
        raise ConfigError(
            f"{storage.url} has no pin {name!r}.", hint=f"Its pins: {known}."
        ) from None
    try:
        given = load_object(data)
        return Pin(**{**{key: given[key] for key in _FIELDS if key in given}, "name": name})
    except (ValueError, TypeError) as exc:
        raise CheckpointCorruptError(
            f"The pin {storage.path(f'{FOLDER}/{name}')} cannot be read: {exc}.",
            hint="Remove it with unpin, and pin the epoch again if it is still there.",
        ) from exc


def all_pins(storage: Storage) -> list[Pin]:
    """All pins, lowest epoch first.

    :raises CheckpointCorruptError: one is unreadable.
    """
    return _each(storage, lambda file: get_pin(storage, file.name))


def pinned_epochs(storage: Storage) -> list[PinnedEpoch]:
    """Which epochs are pinned, lowest first. Of a long pin, which may have megabytes, only the
    beginning is read.

    :raises CheckpointCorruptError: one is unreadable.
    """

    def look(file: FileInfo) -> PinnedEpoch:
        if file.size > _SHORT_BYTES:
            with suppress(FileNotFoundError):
                begins = storage.beginning(f"{FOLDER}/{file.name}", _BEGINNING_BYTES)
                if told := _BEGINNING.match(begins):
                    return PinnedEpoch(file.name, int(told[1]), int(told[2]))
        return get_pin(storage, file.name)

    return _each(storage, look)


def _each(storage: Storage, look: Callable[[FileInfo], Found]) -> list[Found]:
    """What a look at each pin returns; lowest epoch first."""

    def try_to(file: FileInfo) -> Found | None:
        with suppress(ConfigError):  # it was removed since
            return look(file)
        return None

    looks = storage.together(*(partial(try_to, file) for file in _files(storage)))
    found = [each for each in looks if each is not None]
    return sorted(found, key=lambda pin: (pin.epoch, pin.name))


def remove_pin(storage: Storage, name: str) -> None:
    """Forget a pin; what retention has removed meanwhile is gone with it.

    :raises ConfigError: there is none.
    """
    if name not in _names(storage):
        get_pin(storage, name)
    storage.delete(f"{FOLDER}/{name}")


def move_later_pins(storage: Storage, epoch: int, to: str) -> None:
    """Move the pins of later epochs to the folder ``to``. An unreadable one, which no rewind can
    use, stays.

    :raises CheckpointError: one cannot be moved.
    """
    for name in _names(storage):
        try:
            pin = get_pin(storage, name)
        except (ConfigError, CheckpointCorruptError):
            continue
        if pin.epoch > epoch:
            storage.move(f"{FOLDER}/{name}", f"{to}/{FOLDER}/{name}")


def committed_entries(checkpoint: CheckpointFolder, epoch: int) -> tuple[str, str]:
    """What the offset log and the commit log hold of a committed epoch, as it is.

    :raises ConfigError: the epoch is not committed, or retention has removed it.
    :raises CheckpointError: one of its entries is unreadable.
    """
    entries = []
    for log in (checkpoint.offsets, checkpoint.commits):
        if epoch < 0 or log.get(epoch) is None:
            raise not_available(checkpoint, epoch)
        try:
            entries.append(checkpoint.storage.read(f"{log.name}/{epoch}").decode())
        except FileNotFoundError:
            raise not_available(checkpoint, epoch) from None
    offsets, commit = entries
    return offsets, commit


def not_available(checkpoint: CheckpointFolder, epoch: int) -> ConfigError:
    """The error for an epoch that cannot be had; lists those that can."""
    kept = checkpoint.epochs()
    listed = f"{kept[0]} to {kept[-1]}" if kept else "none"
    pins = ", ".join(f"{pin.name} ({pin.epoch})" for pin in pinned_epochs(checkpoint.storage))
    return ConfigError(
        f"Epoch {epoch} is not among the committed epochs that {checkpoint.url} has kept.",
        hint=f"Available: {listed}{f'; pinned: {pins}' if pins else ''}.",
        epoch=epoch,
    )


def _files(storage: Storage) -> list[FileInfo]:
    return [file for file in storage.list(FOLDER) if _NAME.fullmatch(file.name)]


def _names(storage: Storage) -> list[str]:
    return [file.name for file in _files(storage)]
