"""Whether a query's rows fit a table.

Columns are known by their names, in any order. A table may have columns that the query does not
write, if they may be null. What a query's types become is what Spark's writer makes of them:
``byte`` and ``short`` are an ``int``.

Source: Iceberg's spec, schemas and partitioning; Spark's SparkTypeToType.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    IdentityTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
    parse_transform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from engine.errors import ConfigError
from engine.expressions.types import is_variant, sql_name
from engine.sinks.iceberg.names import OWNER

FORMAT_VERSION_MAX: Final = 2
"""What pyiceberg writes in full."""
_TERM: Final = re.compile(r"(?P<transform>\w+)\(\s*(?:(?P<number>\d+)\s*,\s*)?(?P<column>[^()]+)\)")
_SUFFIXES: Final = {
    **dict.fromkeys(("year", "years"), "year"),
    **dict.fromkeys(("month", "months"), "month"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("hour", "hours"), "hour"),
    "bucket": "bucket",
    "truncate": "trunc",
}
_NUMBERED: Final = ("bucket", "truncate")
_SELECT: Final = (
    "Cast or rename in the query: df.select(...). For a table that asks more of its writers than "
    "this sink keeps, write to one of its own and merge from there."
)


@dataclass(frozen=True)
class TableFacts:
    """What a table is to its writers. Picklable.

    :param id: changes if it is dropped and made again.
    :param properties: those of its files.
    """

    id: str
    schema: Schema
    spec: PartitionSpec
    location: str
    format_version: int
    properties: Mapping[str, str]

    @property
    def partition(self) -> tuple[tuple[str, str], ...]:
        """Columns, each with what is made of it."""
        return tuple(
            (self.schema.find_column_name(field.source_id) or "?", str(field.transform))
            for field in self.spec.fields
        )

    def ids(self, names: Sequence[str]) -> dict[str, int]:
        """The columns of these names that it has."""
        return {field.name: field.field_id for field in self.schema.fields if field.name in names}

    def arrow(self, names: Sequence[str]) -> pa.Schema:
        """Of data files with these columns: Iceberg's own identifiers are in it."""
        return schema_to_pyarrow(Schema(*(self.schema.find_field(name) for name in names)))


@dataclass(frozen=True)
class Rows:
    """What a query writes.

    :param partition: columns, each with what is made of it; None: it leaves that to the table.
    """

    schema: Schema
    partition: tuple[tuple[str, str], ...] | None
    adds_columns: bool

    @classmethod
    def of(
        cls, schema: pa.Schema, partition: Sequence[tuple[str, str]], *, adds_columns: bool
    ) -> Rows:
        """:param partition: columns, each with what is to be made of it.
        :raises ConfigError: Iceberg cannot hold it."""
        seen: dict[str, str] = {}
        for name in schema.names:
            if not name or "." in name:
                raise ConfigError(
                    f"{OWNER}: a column cannot be named {name!r} there.",
                    hint="Name it without dots: df.withColumnRenamed(...).",
                )
            if name.lower() in seen:
                raise ConfigError(
                    f"{OWNER}: the columns {seen[name.lower()]!r} and {name!r} differ in case only."
                )
            seen[name.lower()] = name
        ids = itertools.count(1)
        rows = cls(
            Schema(*[_column(field, ids) for field in schema]),
            tuple(partition) or None,
            adds_columns,
        )
        rows.spec()
        return rows

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.schema.fields)

    def spec(self) -> PartitionSpec:
        """Of a table of these rows.

        :raises ConfigError: it cannot be partitioned so.
        """
        fields = []
        for number, (column, text) in enumerate(self.partition or ()):
            if column not in self.names:
                raise ConfigError(
                    f"{OWNER}: the partition names {column!r}, which is no column.",
                    hint=f"There are {', '.join(self.names)}.",
                )
            source = self.schema.find_field(column)
            transform = parse_transform(text)
            problem = _unmade(transform, source.field_type)
            if problem is not None:
                raise ConfigError(
                    f"{OWNER}: a table cannot be partitioned by {shown([(column, text)])}: "
                    f"{problem}."
                )
            suffix = _SUFFIXES.get(text.partition("[")[0])
            fields.append(
                PartitionField(
                    source.field_id,
                    PARTITION_FIELD_ID_START + number,
                    transform,
                    f"{column}_{suffix}" if suffix else column,
                )
            )
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"{OWNER}: the partition ({shown(self.partition or ())}) uses a column twice."
            )
        return PartitionSpec(*fields)

    def check(self, table: TableFacts, where: str) -> list[str]:
        """:param where: the table, for errors.
        :returns: the columns that the table lacks and is to get.
        :raises ConfigError: the rows do not fit."""
        problem = next(self._problems(table), None)
        if problem is not None:
            raise ConfigError(f"{OWNER}: the table {where} {problem}", hint=_SELECT)
        there = table.ids(self.names)
        missing = [name for name in self.names if name not in there]
        if missing and not self.adds_columns:
            raise ConfigError(
                f"{OWNER}: the table {where} has no column {', '.join(missing)}.",
                hint='Select the columns that it has, or set option("schemaEvolution", '
                '"add-columns").',
            )
        return missing

    def _problems(self, table: TableFacts) -> Iterator[str]:
        yield from unkept(table)
        by_name = {field.name: field for field in table.schema.fields}
        by_case = {name.lower(): name for name in by_name}
        for own in self.schema.fields:
            field = by_name.get(own.name)
            if field is None:
                other = by_case.get(own.name.lower())
                if other is not None:
                    yield f"has the column {other}, which the query calls {own.name}."
            elif _shape(field.field_type) != _shape(own.field_type):
                yield (
                    f"has the column {own.name} with the type {_shape(field.field_type)}; the "
                    f"query writes {_shape(own.field_type)}."
                )
            elif _has_required(field.field_type):
                yield f"has the column {own.name}, of which parts must not be null."
        if self.partition is not None and self.partition != table.partition:
            yield (
                f"is partitioned by ({shown(table.partition)}), the query by "
                f"({shown(self.partition)})."
            )
        for part, (column, _) in zip(table.spec.fields, table.partition, strict=True):
            if column not in self.names:
                yield f"is partitioned by {column}, which the query does not write."
                continue
            problem = _unmade(part.transform, table.schema.find_field(part.source_id).field_type)
            if problem is not None:
                yield f"is partitioned by {column} so that this sink cannot: {problem}."
        for name, field in by_name.items():
            if field.required and name not in self.names:
                yield f"has the column {name}, which must not be left out."


def unkept(table: TableFacts) -> Iterator[str]:
    """What a table asks of its files that is not kept here, whatever rows are in them."""
    if table.format_version > FORMAT_VERSION_MAX:
        yield f"has format version {table.format_version}, which this sink does not write."
    for name in table.properties:
        if name.startswith("encryption."):
            yield f"is encrypted ({name}), which this sink does not keep."


def partition_of(text: str) -> list[tuple[str, str]]:
    """What the option ``partitionSpec`` says: columns, each with what is to be made of it.

    :param text: as in Spark's SQL: ``days(ts), bucket(16, id), region``.
    :raises ConfigError: it is none.
    """
    found = []
    for term in re.split(r",(?![^(]*\))", text):
        made = _TERM.fullmatch(term.strip())
        if made is None:
            found.append((term.strip(), "identity"))
            continue
        kind, number, column = made["transform"].lower(), made["number"], made["column"].strip()
        if kind not in _SUFFIXES or (number is None) == (kind in _NUMBERED):
            raise ConfigError(
                f"Option partitionSpec of {OWNER}: {term.strip()!r} is no partition.",
                hint="There are columns, years(c), months(c), days(c), hours(c), bucket(16, c) and "
                "truncate(4, c), with commas between them.",
            )
        found.append((column, f"{kind.rstrip('s')}[{number}]" if number else kind.rstrip("s")))
    return found


def required(table: TableFacts) -> tuple[str, ...]:
    """The columns that must not be null."""
    return tuple(field.name for field in table.schema.fields if field.required)


def shown(partition: Sequence[tuple[str, str]]) -> str:
    """For people."""
    return ", ".join(name if kind == "identity" else f"{kind}({name})" for name, kind in partition)


def _unmade(transform: Transform[Any, Any], source: IcebergType) -> str | None:
    """Why no partition is made so; None if it is."""
    if isinstance(transform, (UnknownTransform, VoidTransform)):
        return f"{transform} makes no value"
    if isinstance(source, (FloatType, DoubleType)) or not source.is_primitive:
        return f"the type {_shape(source)} makes no partition"
    if not isinstance(transform, IdentityTransform) and not transform.can_transform(source):
        return f"{transform} is not made of the type {_shape(source)}"
    return None


def _column(field: pa.Field, ids: Iterator[int]) -> NestedField:
    try:
        return NestedField(next(ids), field.name, _type(field.type, ids), required=False)
    except TypeError as exc:
        raise ConfigError(
            f"{OWNER}: Iceberg cannot hold the column {field.name}, which has the type {exc}.",
            hint="Cast it to a string or a number, or leave it out.",
        ) from None


def _type(dtype: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """:raises TypeError: Iceberg has no such type; its name."""
    kinds = pa.types
    if is_variant(dtype):  # Iceberg has it from version 3 of its format on
        raise TypeError(sql_name(dtype))
    if kinds.is_struct(dtype):
        if not len(dtype):  # a Parquet file has no place for it
            raise TypeError("STRUCT<>")
        return StructType(
            *[NestedField(next(ids), f.name, _type(f.type, ids), required=False) for f in dtype]
        )
    if kinds.is_list(dtype):
        return ListType(next(ids), _type(dtype.value_type, ids), element_required=False)
    if kinds.is_map(dtype):
        return MapType(
            next(ids),
            _type(dtype.key_type, ids),
            next(ids),
            _type(dtype.item_type, ids),
            value_required=False,
        )
    if kinds.is_decimal(dtype):
        return DecimalType(dtype.precision, dtype.scale)
    if kinds.is_timestamp(dtype):
        return TimestamptzType() if dtype.tz else TimestampType()
    for is_one, found in _PRIMITIVES:
        if is_one(dtype):
            return found
    raise TypeError(sql_name(dtype))


_PRIMITIVES: Final = (
    (pa.types.is_boolean, BooleanType()),
    (pa.types.is_int64, LongType()),
    (pa.types.is_integer, IntegerType()),
    (pa.types.is_float32, FloatType()),
    (pa.types.is_float64, DoubleType()),
    (pa.types.is_string, StringType()),
    (pa.types.is_binary, BinaryType()),
    (pa.types.is_date32, DateType()),
)


def _shape(dtype: IcebergType) -> str:
    """A type without identifiers, and without what may be null."""
    if isinstance(dtype, StructType):
        return f"struct<{', '.join(f'{f.name}: {_shape(f.field_type)}' for f in dtype.fields)}>"
    if isinstance(dtype, ListType):
        return f"list<{_shape(dtype.element_type)}>"
    if isinstance(dtype, MapType):
        return f"map<{_shape(dtype.key_type)}, {_shape(dtype.value_type)}>"
    return str(dtype)


def _has_required(dtype: IcebergType) -> bool:
    if isinstance(dtype, StructType):
        return any(f.required or _has_required(f.field_type) for f in dtype.fields)
    if isinstance(dtype, ListType):
        return dtype.element_required or _has_required(dtype.element_type)
    if isinstance(dtype, MapType):
        return (
            dtype.value_required or _has_required(dtype.key_type) or _has_required(dtype.value_type)
        )
    return False
