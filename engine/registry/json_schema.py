"""JSON Schema: the type of the column that ``from_json`` reads such documents as.

===================================  =========================================
JSON Schema                          Spark
===================================  =========================================
``object`` with ``properties``       STRUCT
``object`` with other                MAP<STRING, ...>
``additionalProperties``
``array`` with ``items``             ARRAY
``integer``, ``number``              BIGINT, DOUBLE
``string``, ``boolean``              STRING, BOOLEAN
one of ``null`` and another          the other
===================================  =========================================

Source: JSON Schema, drafts 4 to 2020-12.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from engine.errors import ConfigError

KIND: Final = "JSON"
_SIMPLE: Final = {
    "integer": pa.int64(), "number": pa.float64(), "string": pa.string(), "boolean": pa.bool_(),
}  # fmt: skip


def column_type(text: str) -> pa.DataType:
    """What documents of a schema are read as.

    :param text: the schema.
    :raises ConfigError: they may be of several types, or of one that is not told.
    """
    try:
        schema = json.loads(text)
    except ValueError as exc:
        raise ConfigError(f"This is no JSON Schema: {exc}.") from exc
    return _type(schema, schema, "$", ())


def _type(schema: Any, root: Any, where: str, inside: tuple[str, ...]) -> pa.DataType:
    if not isinstance(schema, dict):
        raise _untold(where, "it may be anything")
    if "$ref" in schema:
        target = schema["$ref"]
        if target in inside:
            raise _untold(where, f"{target} contains itself")
        return _type(_found(root, target, where), root, where, (*inside, target))
    for several in ("oneOf", "anyOf"):
        if several in schema:
            others = [each for each in schema[several] if each != {"type": "null"}]
            if len(others) != 1:
                raise _untold(where, f"it is one of several types ({several})")
            return _type(others[0], root, where, inside)
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else kind
    if isinstance(kind, str) and kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "array":
        items = _type(schema.get("items"), root, f"{where}[]", inside)
        return pa.list_(pa.field("element", items))
    if kind == "object":
        return _object(schema, root, where, inside)
    raise _untold(where, f"its type is {kind!r}")


def _object(schema: Any, root: Any, where: str, inside: tuple[str, ...]) -> pa.DataType:
    fields = schema.get("properties")
    if fields:
        return pa.struct(
            [
                pa.field(name, _type(each, root, f"{where}.{name}", inside))
                for name, each in fields.items()
            ]
        )
    values = _type(schema.get("additionalProperties"), root, f"{where}.*", inside)
    return pa.map_(pa.field("key", pa.string(), False), pa.field("value", values))


def _found(root: Any, target: str, where: str) -> Any:
    """What ``#/definitions/x`` names."""
    found = root
    try:
        if not target.startswith("#"):
            raise KeyError(target)
        for part in target.removeprefix("#").strip("/").split("/"):
            if part:
                found = found[part.replace("~1", "/").replace("~0", "~")]
    except (KeyError, TypeError) as exc:
        raise _untold(where, f"there is no {target} in the schema itself") from exc
    return found


def _untold(where: str, why: str) -> ConfigError:
    return ConfigError(
        f"A column cannot have the type of this JSON Schema: at {where} {why}.",
        hint='Say what is to be read: from_json(..., schema="id BIGINT, name STRING").',
    )
