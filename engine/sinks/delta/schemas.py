"""Whether a query's rows fit a table. Pure: schemas are JSON, which Spark and Delta share.

Columns are known by their names, in any order. A table may have columns that the query does not
write, if they may be null. What a table asks of its writers beyond types (constraints, generated
columns, ...) is not kept by this sink, so such tables are refused.

Source: Delta's PROTOCOL.md; Spark's SchemaUtils.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from engine.errors import ConfigError

OWNER: Final = "sink delta"
_FORBIDDEN: Final = " ,;{}()\n\t="
_PARTITIONABLE: Final = ("string", "boolean", "byte", "short", "integer", "long", "date")
_NOT_KEPT: Final = {  # a column's metadata → what it means
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
    "__CHAR_VARCHAR_TYPE_STRING": "is a CHAR or VARCHAR",
}
_SWITCHES: Final = {  # a table's property → its harmless values
    "delta.columnMapping.mode": ("none",),
    "delta.enableRowTracking": ("false",),
    "delta.enableIcebergCompatV1": ("false",),
    "delta.enableIcebergCompatV2": ("false",),
    "delta.enableInCommitTimestamps": ("false",),
}
_FORGETS: Final = "delta.setTransactionRetentionDuration"
_DEFAULT: Final = "CURRENT_DEFAULT"


@dataclass(frozen=True)
class TableFacts:
    """What a table is to its writers.

    :param id: changes if it is dropped and made again.
    :param fields: of its schema: name → ``{"name", "type", "nullable", "metadata"}``.
    """

    id: str
    fields: Mapping[str, Mapping[str, Any]]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Rows:
    """What a query writes.

    :param fields: name → type, as Spark's JSON has it.
    :param partition_by: None: it leaves that to the table.
    """

    fields: Mapping[str, Any]
    partition_by: tuple[str, ...] | None
    adds_columns: bool

    @classmethod
    def of(
        cls, schema: Mapping[str, Any], partition_by: Sequence[str], *, adds_columns: bool
    ) -> Rows:
        """:param schema: Spark's ``StructType`` as JSON.
        :raises ConfigError: Delta cannot hold it."""
        fields = {field["name"]: _nullable(field["type"]) for field in schema["fields"]}
        rows = cls(fields, tuple(partition_by) or None, adds_columns)
        rows._check()
        return rows

    def schema(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """The schema of a table of these columns, or of some of them. All may be null: nothing
        says that later rows will not be."""
        return {
            "type": "struct",
            "fields": [
                {"name": name, "type": self.fields[name], "nullable": True, "metadata": {}}
                for name in names or self.fields
            ],
        }

    def check(self, table: TableFacts, where: str) -> list[str]:
        """:param where: the table's location, for errors.
        :returns: the columns that the table lacks and is to get.
        :raises ConfigError: the rows do not fit."""
        problem = next(self._problems(table), None)
        if problem is not None:
            raise ConfigError(f"{OWNER}: the table {where} {problem}", hint=_SELECT)
        missing = [name for name in self.fields if name not in table.fields]
        if missing and not self.adds_columns:
            raise ConfigError(
                f"{OWNER}: the table {where} has no column {', '.join(missing)}.",
                hint='Select the columns that it has, or set option("schemaEvolution", '
                '"add-columns").',
            )
        return missing

    def _check(self) -> None:
        seen: dict[str, str] = {}
        for name, dtype in self.fields.items():
            bad = next((char for char in name if char in _FORBIDDEN), None)
            if bad is not None or not name:
                raise ConfigError(
                    f"{OWNER}: a column of a Delta table cannot be named {name!r}.",
                    hint=f"Name it without any of {_FORBIDDEN!r}: df.withColumnRenamed(...).",
                )
            if name.lower() in seen:
                raise ConfigError(
                    f"{OWNER}: the columns {seen[name.lower()]!r} and {name!r} differ in case only."
                )
            seen[name.lower()] = name
            unheld = next(_unheld(dtype), None)
            if unheld is not None:
                raise ConfigError(
                    f"{OWNER}: Delta cannot hold the column {name}, which has the type {unheld}.",
                    hint="Cast it to a string or a number, or leave it out.",
                )
        for name in self.partition_by or ():
            self._check_partition(name)
        if len(self.partition_by or ()) == len(self.fields):
            raise ConfigError(
                f"{OWNER}: partitionBy names all columns: none is left for the files."
            )

    def _check_partition(self, name: str) -> None:
        if name not in self.fields:
            raise ConfigError(
                f"{OWNER}: partitionBy names {name!r}, which is no column.",
                hint=f"There are {', '.join(self.fields)}.",
            )
        dtype = self.fields[name]
        if not _is_partitionable(dtype):
            shown = dtype if isinstance(dtype, str) else dtype["type"]
            raise ConfigError(
                f"{OWNER}: a table cannot be partitioned by {name}, which has the type {shown}.",
                hint="Partition by a string, a whole number, a boolean or a date, as a timestamp "
                "has one.",
            )

    def _problems(self, table: TableFacts) -> Iterator[str]:
        by_case = {name.lower(): name for name in table.fields}
        for name, dtype in self.fields.items():
            field = table.fields.get(name)
            if field is None:
                other = by_case.get(name.lower())
                if other is not None:
                    yield f"has the column {other}, which the query calls {name}."
            elif field["type"] != dtype:
                yield (
                    f"has the column {name} with the type {field['type']}; the query writes "
                    f"{dtype}."
                )
        if self.partition_by is not None and self.partition_by != table.partition_by:
            yield (
                f"is partitioned by ({', '.join(table.partition_by)}), the query by "
                f"({', '.join(self.partition_by)})."
            )
        for name in table.partition_by:
            if name not in self.fields:
                yield f"is partitioned by {name}, which the query does not write."
        for name, field in table.fields.items():
            for mark, meaning in _NOT_KEPT.items():
                if mark in field["metadata"]:
                    yield f"has the column {name}, which {meaning}: this sink does not keep that."
            if name not in self.fields and (not field["nullable"] or _DEFAULT in field["metadata"]):
                yield f"has the column {name}, which must not be left out."
        yield from unkept(table)
        for name, value in table.properties.items():
            if name.startswith("delta.constraints."):
                yield f"has the constraint {name.removeprefix('delta.constraints.')}: {value}."
            if name == _FORGETS:
                yield f"forgets after {value} which epochs it has: {name} is set."


_SELECT: Final = (
    "Cast or rename in the query: df.select(...). For a table that asks more of its writers than "
    "this sink keeps, write to one of its own and merge from there."
)


def unkept(table: TableFacts) -> Iterator[str]:
    """What a table asks of its files that is not kept here, whatever rows are in them."""
    for name in table.partition_by:
        if not _is_partitionable(table.fields[name]["type"]):
            yield f"is partitioned by {name}, whose type makes no partition for this sink."
    for name, value in table.properties.items():
        if name in _SWITCHES and value.lower() not in _SWITCHES[name]:
            yield f"has {name} = {value}, which this sink does not keep."


def is_append_only(table: TableFacts) -> bool:
    """Whether no rows may be taken out."""
    return table.properties.get("delta.appendOnly", "").lower() == "true"


def required(table: TableFacts) -> tuple[str, ...]:
    """The columns that must not be null."""
    return tuple(name for name, field in table.fields.items() if not field["nullable"])


def partition_text(value: Any) -> str | None:
    """A partition value as the table's log has it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_partitionable(dtype: Any) -> bool:
    return isinstance(dtype, str) and dtype in _PARTITIONABLE


def _nullable(dtype: Any) -> Any:
    """A type of which every part may be null."""
    if isinstance(dtype, str):
        return dtype
    kind = dtype["type"]
    if kind == "struct":
        return {
            "type": "struct",
            "fields": [
                {
                    "name": field["name"],
                    "type": _nullable(field["type"]),
                    "nullable": True,
                    "metadata": {},
                }
                for field in dtype["fields"]
            ],
        }
    if kind == "array":
        return {**dtype, "elementType": _nullable(dtype["elementType"]), "containsNull": True}
    return {
        **dtype,
        "keyType": _nullable(dtype["keyType"]),
        "valueType": _nullable(dtype["valueType"]),
        "valueContainsNull": True,
    }


def _unheld(dtype: Any) -> Iterator[str]:
    """The types within a type that Delta does not have."""
    if isinstance(dtype, str):
        if dtype in ("void", "variant") or dtype.startswith("interval"):
            yield dtype
    elif dtype["type"] == "struct":
        if not dtype["fields"]:
            yield "struct<>"  # a Parquet file has no place for it
        for field in dtype["fields"]:
            yield from _unheld(field["type"])
    else:
        for part in ("elementType", "keyType", "valueType"):
            if part in dtype:
                yield from _unheld(dtype[part])
