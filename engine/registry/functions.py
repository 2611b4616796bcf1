"""Columns of records whose schemas are in a registry, as columns of their contents, and back::

    registry = SchemaRegistry("http://registry:8081", {"basic.auth.user.info": "me:secret"})
    orders = df.select(registry.from_avro("value", "orders-value").alias("order")).select("order.*")
    out = orders.select(registry.to_avro(struct("id", "amount"), "big-orders-value").alias("value"))

They are Arrow functions of PySpark, so Spark itself runs them as well. The schema that a query
reads by is looked up when the query is made, and is a part of it. Which one a record was written by
is looked up when the first one comes, on the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.errors import ConfigError
from engine.expressions.types import to_spark
from engine.registry.client import Access, Schema, connected
from engine.registry.wire_format import HEADER, header, schema_id

if TYPE_CHECKING:
    from pyspark.sql import Column

Call = Callable[[pa.Array], pa.Array]
_EXTRA = "pip install 'airflow-provider-continuous[registry]'"


class SchemaRegistry:
    """A registry, for functions of columns.

    :param url: of its servers, with commas.
    :param options: see :meth:`engine.registry.client.Access.of`.
    :raises ConfigError: an option is wrong, or not known.
    """

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        self._access = Access.of(url, options or {})

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(self._access.urls)})"

    # -- Avro -----------------------------------------------------------------------------------

    def from_avro(
        self,
        column: Column | str,
        subject: str | None = None,
        *,
        schema: str | None = None,
        version: int | None = None,
    ) -> Column:
        """BINARY to what the record holds. NULL stays NULL.

        :param subject: its latest schema, or that of ``version``, is what the column gets.
        :param schema: or this one, as JSON.
        :raises ConfigError: there is no such schema, or no column can have its type.
        :raises SourceError: the registry cannot be asked.
        """
        avro = _avro()
        reader = (
            avro.AvroSchema.of(connected(self._access), self._schema(subject, version))
            if schema is None
            else avro.AvroSchema([schema])
        )
        decode = avro.AvroDecoder(self._access, reader)
        return _called(f"from_avro_{subject or 'schema'}", decode, reader.dtype, column)

    def to_avro(
        self,
        column: Column | str,
        subject: str,
        *,
        schema: str | None = None,
        version: int | None = None,
    ) -> Column:
        """A struct to BINARY, by the schema of the subject. NULL stays NULL.

        :param schema: as JSON; it is registered if the subject does not have it.
        :raises ConfigError: there is no such schema, or the registry refuses it.
        :raises SourceError: the registry cannot be asked.
        """
        avro = _avro()
        if schema is not None:
            texts = avro.AvroSchema([schema])
            id = connected(self._access).register(subject, avro.KIND, schema)
        else:
            found = self._schema(subject, version)
            texts, id = avro.AvroSchema.of(connected(self._access), found), found.id
        encode = avro.AvroEncoder(id, texts)
        return _called(f"to_avro_{subject}", encode, pa.binary(), column)

    # -- Protobuf -------------------------------------------------------------------------------

    def from_protobuf(
        self, column: Column | str, message: str, descriptors: str | Path | bytes
    ) -> Column:
        """BINARY to what the message holds. NULL stays NULL.

        :param message: its name; ``descriptors`` the set it is in: a file, or its content.
        :raises ConfigError: there is no such message.
        """
        protobuf = _protobuf()
        kind = protobuf.MessageType(_content(descriptors), message)
        return _called(
            f"from_protobuf_{message}", protobuf.ProtobufDecoder(kind), kind.dtype, column
        )

    def to_protobuf(
        self,
        column: Column | str,
        subject: str,
        message: str,
        descriptors: str | Path | bytes,
        *,
        version: int | None = None,
    ) -> Column:
        """A struct to BINARY, with the id of the subject's schema, which must be that of the
        descriptors. NULL stays NULL.

        :raises ConfigError: there is no such message, or no such schema.
        :raises SourceError: the registry cannot be asked.
        """
        protobuf = _protobuf()
        kind = protobuf.MessageType(_content(descriptors), message)
        found = self._schema(subject, version, protobuf.KIND)
        encode = protobuf.ProtobufEncoder(found.id, kind)
        return _called(f"to_protobuf_{subject}", encode, pa.binary(), column)

    # -- JSON Schema ----------------------------------------------------------------------------

    def from_json(
        self,
        column: Column | str,
        subject: str | None = None,
        *,
        schema: str | None = None,
        version: int | None = None,
    ) -> Column:
        """BINARY to what the document holds, by Spark's ``from_json``; one that is none, or does
        not fit, is a bad record. NULL stays NULL.

        :param schema: Spark's DDL, instead of the subject's.
        :raises ConfigError: there is no such schema, or no column can have its type.
        :raises SourceError: the registry cannot be asked.
        """
        from pyspark.sql import functions as F

        from engine.registry.json_schema import KIND, column_type

        dtype: Any = schema
        if schema is None:
            dtype = _spark_type(column_type(self._schema(subject, version, KIND).text))
        text = _called("json_of_record", _text, pa.string(), column)
        return F.from_json(text, dtype, {"mode": "FAILFAST"})

    def to_json(
        self,
        column: Column | str,
        subject: str,
        *,
        schema: str | None = None,
        version: int | None = None,
    ) -> Column:
        """A struct to BINARY, by Spark's ``to_json``, with the id of the subject's schema. NULL
        stays NULL.

        :param schema: JSON Schema; it is registered if the subject does not have it.
        :raises ConfigError: there is no such schema, or the registry refuses it.
        :raises SourceError: the registry cannot be asked.
        """
        from pyspark.sql import functions as F

        from engine.registry.json_schema import KIND

        if schema is None:
            id = self._schema(subject, version, KIND).id
        else:
            id = connected(self._access).register(subject, KIND, schema)
        return _called(f"to_json_{subject}", _Framed(id), pa.binary(), F.to_json(column))

    def _schema(self, subject: str | None, version: int | None, kind: str | None = None) -> Schema:
        if subject is None:
            raise ConfigError(
                "Neither a subject nor a schema is given.",
                hint='Name the subject: from_avro("value", "orders-value").',
            )
        found = connected(self._access).of_subject(subject, version)
        if kind is not None and found.kind != kind:
            raise ConfigError(
                f"The subject {subject!r} has schemas of {found.kind}, and not of {kind}.",
                hint="Use the function for that.",
            )
        return found


def _called(name: str, call: Call, dtype: pa.DataType, column: Column | str) -> Column:
    """An Arrow function of a column.

    :param name: as plans show it.
    """
    from pyspark.sql import functions as F

    arrow_udf: Any = vars(F)["arrow_udf"]  # which its annotations do not know

    def function(values: pa.Array) -> pa.Array:
        return call(values)

    function.__name__ = "".join(each if each.isalnum() else "_" for each in name)
    called: Column = arrow_udf(function, _spark_type(dtype))(column)
    return called


def _spark_type(dtype: pa.DataType) -> Any:
    from pyspark.sql.types import StructType

    fields = [{"name": "_", "type": to_spark(dtype), "nullable": True, "metadata": {}}]
    return StructType.fromJson({"type": "struct", "fields": fields})["_"].dataType


def _text(framed: pa.Array) -> pa.Array:
    """Behind the ids."""
    found = []
    for each in framed.to_pylist():
        if each is not None:
            schema_id(each)
        found.append(None if each is None else each[HEADER:].decode())
    return pa.array(found, pa.string())


class _Framed:
    """Texts behind an id. Picklable."""

    def __init__(self, id: int) -> None:
        self._header = header(id)

    def __call__(self, texts: pa.Array) -> pa.Array:
        octets = texts.cast(pa.binary()).to_pylist()
        return pa.array(
            [None if each is None else self._header + each for each in octets], pa.binary()
        )


def _content(descriptors: str | Path | bytes) -> bytes:
    if isinstance(descriptors, bytes):
        return descriptors
    try:
        return Path(descriptors).read_bytes()
    except OSError as exc:
        raise ConfigError(f"The descriptor set cannot be read: {exc}.") from exc


def _avro() -> Any:
    try:
        from engine.registry import avro
    except ImportError as exc:
        raise ConfigError("Avro needs fastavro, which is not installed.", hint=_EXTRA) from exc
    return avro


def _protobuf() -> Any:
    try:
        from engine.registry import protobuf
    except ImportError as exc:
        raise ConfigError("Protobuf needs protobuf, which is not installed.", hint=_EXTRA) from exc
    return protobuf
