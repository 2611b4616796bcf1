"""Reads class files of Spark's jars: what a case class is made with, and which methods it calls.

Source: The Java Virtual Machine Specification, chapter 4.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

_SIZES: Final = {3: 4, 4: 4, 5: 8, 6: 8, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 17: 4, 18: 4}
_NAMED: Final = (7, 8, 16, 19, 20)
_SWITCH, _LOAD, _LOAD_WIDE = 0xAA, 0x12, 0x13


@dataclass
class ClassFile:
    """
    :param constants: the constant pool, by index: texts; indexes of others.
    :ivar parents: its superclass and its interfaces.
    :ivar calls: class, method and descriptor of all that it calls.
    :ivar constructors: the types of each one's parameters, in descriptors.
    :ivar names: of the primary constructor's parameters; None if it is no case class.
    """

    constants: list[Any]
    name: str = ""
    parents: tuple[str, ...] = ()
    constructors: list[list[str]] = field(default_factory=list)
    names: list[str] | None = None

    @property
    def calls(self) -> Iterator[tuple[str, str, str]]:
        for entry in self.constants:
            if isinstance(entry, tuple) and entry[0] in (10, 11):
                kind, signature = entry[1:]
                name, descriptor = self.constants[signature][1:]
                yield self.named(kind), self.constants[name], self.constants[descriptor]

    def named(self, index: int) -> str:
        """The text that a constant refers to."""
        return str(self.constants[self.constants[index][1]])

    @property
    def parameters(self) -> dict[str, str]:
        """Of the primary constructor: name → descriptor of the type."""
        names = self.names or []
        for types in self.constructors:
            if len(types) == len(names):
                return dict(zip(names, types, strict=True))
        return {}


def parse(data: bytes) -> ClassFile:
    """The class of a file."""
    count = _u2(data, 8)
    constants: list[Any] = [None] * count
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == 1:
            length = _u2(data, at + 1)
            constants[index] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        elif tag in _NAMED:
            constants[index] = (tag, _u2(data, at + 1))
            at += 3
        else:
            if tag in (9, 10, 11, 12):
                constants[index] = (tag, _u2(data, at + 1), _u2(data, at + 3))
            at += 1 + _SIZES[tag]
        index += 2 if tag in (5, 6) else 1
    found = ClassFile(constants)
    _, this, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    at += 8
    found.name = found.named(this)
    above = [parent, *struct.unpack_from(f">{interfaces}H", data, at)]
    found.parents = tuple(found.named(each) for each in above if each)
    at = _members(data, at + 2 * interfaces, found)  # fields
    _members(data, at, found)
    return found


def _members(data: bytes, at: int, found: ClassFile) -> int:
    """Read fields, or methods; where they end."""
    count = _u2(data, at)
    at += 2
    for _ in range(count):
        name, descriptor = (str(found.constants[_u2(data, at + each)]) for each in (2, 4))
        attributes = _u2(data, at + 6)
        at += 8
        if name == "<init>":
            inside = descriptor[1 : descriptor.index(")")]
            found.constructors.append(re.findall(r"\[*(?:L[^;]+;|[A-Z])", inside))
        for _ in range(attributes):
            size = struct.unpack_from(">I", data, at + 2)[0]
            if name == "productElementName" and found.constants[_u2(data, at)] == "Code":
                length = struct.unpack_from(">I", data, at + 10)[0]
                found.names = list(_texts(data[at + 14 : at + 14 + length], found))
            at += 6 + size
    return at


def _texts(code: bytes, found: ClassFile) -> Iterator[str]:
    """The texts that a method loads, in order: one per parameter, in one switch or none."""
    at = 0
    while at < len(code):
        if code[at] == _SWITCH:
            at = (at + 4) & ~3
            low, high = struct.unpack_from(">ii", code, at + 4)
            at += 12 + 4 * (high - low + 1)
        elif code[at] == _LOAD:
            yield found.named(code[at + 1])
            at += 2
        elif code[at] == _LOAD_WIDE:
            yield found.named(_u2(code, at + 1))
            at += 3
        else:
            at += 3 if code[at] in (0x99, 0x9A, 0xA7, 0xB6, 0xB7, 0xB8, 0xC0) else 1


def _u2(data: bytes, at: int) -> int:
    return int(struct.unpack_from(">H", data, at)[0])


class Classes:
    """Those of some jars, by their names with slashes."""

    def __init__(self, jars: Sequence[Path]) -> None:
        self._of = {
            name.removesuffix(".class"): jar
            for jar in map(ZipFile, jars)
            for name in jar.namelist()
            if name.endswith(".class")
        }
        self.get = cache(self._get)

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def _get(self, name: str) -> ClassFile | None:
        jar = self._of.get(name)
        return None if jar is None else parse(jar.read(f"{name}.class"))

    def is_a(self, name: str, other: str) -> bool:
        """Whether a class is another one, or below it."""
        found = self.get(name)
        return name == other or (
            found is not None and any(self.is_a(parent, other) for parent in found.parents)
        )
