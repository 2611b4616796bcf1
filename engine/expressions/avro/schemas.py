"""A schema of Avro as a tree whose names are resolved.

Only what Spark has accepted comes here, so little is checked.

Source: Avro 1.12, "Schema Declaration", "Names", "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NULL: Final = "null"
NO_DEFAULT: Final = object()


class AvroSchemaError(ValueError):
    """Why a schema cannot be used here."""


@dataclass(eq=False)
class AvroField:
    """A field of a record.

    :param default: as JSON has it, or :data:`NO_DEFAULT`.
    """

    name: str
    type: AvroType
    default: Any = NO_DEFAULT


@dataclass(eq=False)
class AvroType:
    """A type.

    :param kind: ``record``, ``enum``, ``array``, ``map``, ``fixed``, ``union`` or a primitive one.
    :param name: the full name of what has one.
    :param items: of an array, or the values of a map.
    :param attributes: the others, ``logicalType`` for example.
    """

    kind: str
    name: str = ""
    fields: list[AvroField] = field(default_factory=list)
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def part(self) -> AvroType:
        """The items of an array, or the values of a map."""
        assert self.items is not None, self.kind
        return self.items

    @property
    def logical(self) -> str | None:
        """The name of its logical type, valid or not."""
        name = self.attributes.get("logicalType")
        return name if isinstance(name, str) else None

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Digits, and those behind the point; None if it is no valid decimal."""
        if self.logical != "decimal" or self.kind not in ("bytes", "fixed"):
            return None
        precision, scale = self.attributes.get("precision"), self.attributes.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            return None
        if precision <= 0 or not 0 <= scale <= precision:
            return None
        if self.kind == "fixed" and 10**precision > 1 << (8 * self.size - 1):
            return None
        return precision, scale

    @property
    def values(self) -> tuple[AvroType, ...]:
        """The branches of a union, but for ``null``; itself if it is none."""
        if self.kind != "union":
            return (self,)
        return tuple(branch for branch in self.branches if branch.kind != NULL)

    @property
    def nullable(self) -> bool:
        """Whether it is ``null``, or a union that has it."""
        return self.kind == NULL or any(branch.kind == NULL for branch in self.branches)


def parse(text: str) -> AvroType:
    """The type of a schema's JSON.

    :raises AvroSchemaError: it is no schema, or one of records that contain themselves: these may
        be nested more deeply than Python's functions.
    """
    try:
        return _Parser().parse(json.loads(text), "")
    except AvroSchemaError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise AvroSchemaError(f"the schema cannot be read: {error}") from None


def walk(schema: AvroType) -> Iterator[AvroType]:
    """It, and all types within it, each once."""
    seen: list[AvroType] = [schema]
    for each in seen:
        yield each
        inner = [*(field.type for field in each.fields), *each.branches]
        inner += [] if each.items is None else [each.items]
        seen += [one for one in dict.fromkeys(inner) if one not in seen]


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._around: set[str] = set()

    def parse(self, schema: Any, namespace: str) -> AvroType:
        """:param namespace: of what it is within."""
        if isinstance(schema, list):
            return AvroType("union", branches=tuple(self.parse(each, namespace) for each in schema))
        if isinstance(schema, str):
            if schema in PRIMITIVE:
                return AvroType(schema)
            full = _full(schema, namespace)
            name = full if full in self._named else schema
            if name in self._around:
                raise AvroSchemaError(f"the record {name}, which contains itself, is not supported")
            return self._named[name]
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace)
        if kind in PRIMITIVE:
            return AvroType(kind, attributes=schema)
        if kind == "array":
            return AvroType(kind, items=self.parse(schema["items"], namespace))
        if kind == "map":
            return AvroType(kind, items=self.parse(schema["values"], namespace))
        if kind not in ("record", "error", "enum", "fixed"):
            return self.parse(kind, namespace)
        return self._of_name(kind, schema, namespace)

    def _of_name(self, kind: str, schema: Mapping[str, Any], namespace: str) -> AvroType:
        name = _full(schema["name"], schema.get("namespace", namespace))
        found = AvroType("record" if kind == "error" else kind, name, attributes=schema)
        self._named[name] = found
        if kind == "enum":
            found.symbols = tuple(schema["symbols"])
        elif kind == "fixed":
            found.size = schema["size"]
        else:
            within = name.rpartition(".")[0]
            self._around.add(name)
            for each in schema["fields"]:
                default = each.get("default", NO_DEFAULT)
                found.fields.append(
                    AvroField(each["name"], self.parse(each["type"], within), default)
                )
            self._around.remove(name)
        return found


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
