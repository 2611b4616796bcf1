"""Messages of Protobuf by their descriptors. Needs the library protobuf.

Nothing here is imported unless a query has such messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from engine.errors import ConfigError

NAMES_OF_TYPES: Final = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}
"""``int32``, ``message``, ..., by their numbers."""


class DescriptorSet:
    """The messages of a descriptor set.

    :param content: a serialized ``FileDescriptorSet`` with all that its files import
        (``protoc --include_imports --descriptor_set_out=...``).
    :raises ConfigError: it is none.
    """

    def __init__(self, content: bytes) -> None:
        self._pool: DescriptorPool = descriptor_pool.DescriptorPool()
        self._files: dict[str, Any] = {}
        try:
            for each in descriptor_pb2.FileDescriptorSet.FromString(content).file:
                self._files[each.name] = each
            added: set[str] = set()
            for name in self._files:
                self._add(name, added)
        except (DecodeError, TypeError) as exc:
            raise ConfigError(
                f"This is no descriptor set of Protobuf: {exc}.",
                hint="Make it by protoc --include_imports --descriptor_set_out=FILE.",
            ) from exc

    def _add(self, name: str, added: set[str]) -> None:
        """Behind what it imports, in whatever order the set has them."""
        if name in added or name not in self._files:
            return
        added.add(name)
        for other in self._files[name].dependency:
            self._add(other, added)
        self._pool.Add(self._files[name])

    def message(self, name: str) -> Descriptor:
        """
        :param name: with its package or, if that is unique, without.
        :raises ConfigError: there is no such message.
        """
        names = [
            each
            for file in self._files.values()
            for each in _names(file.package, file.message_type)
        ]
        found = [each for each in names if each == name or each.endswith(f".{name}")]
        if name in names:
            found = [name]
        if len(found) != 1:
            raise ConfigError(
                f"The descriptor set has {len(found) or 'no'} messages of the name {name!r}.",
                hint=f"It has {', '.join(sorted(names)) or 'none'}.",
            )
        return self._pool.FindMessageTypeByName(found[0])

    def first_message(self, name: str) -> Descriptor:
        """As Spark takes it: the first of that name, with its package or without, that is not
        within another.

        :raises ConfigError: there is no such message.
        """
        for file in self._files.values():
            for message in file.message_type:
                full = f"{file.package}.{message.name}" if file.package else message.name
                if name in (message.name, full):
                    return self._pool.FindMessageTypeByName(full)
        raise ConfigError(f"The descriptor set has no message of the name {name!r}.")


def _names(package: str, messages: Iterable[Any]) -> list[str]:
    """Of messages, and of those within them."""
    found = []
    for each in messages:
        name = f"{package}.{each.name}" if package else each.name
        found += [name, *_names(name, each.nested_type)]
    return found
