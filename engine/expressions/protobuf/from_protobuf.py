"""``from_protobuf``: messages of Protobuf as columns, where Spark has its package spark-protobuf.

Options: ``mode`` (``FAILFAST``, the default, or ``PERMISSIVE``, which makes NULL of what cannot be
read), ``emit.default.values``, and those that are in the type of the column: ``enums.as.ints``,
``upcast.unsigned.ints``, ``unwrap.primitive.wrapper.types``, ``recursive.fields.max.depth``,
``retain.empty.message.types``.

Messages have to be known by a descriptor set: there are no classes of Java here.

Source: ``ProtobufDataToCatalyst``, ``ProtobufOptions`` of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.errors import ConfigError, TransformError
from engine.expressions.ansi import failure
from engine.expressions.options import OptionError, Options, may_fail_fast, refused_for
from engine.expressions.protobuf.conversions import Conversion, Convert
from engine.expressions.protobuf.messages import Messages, UnsupportedMessageError
from engine.expressions.protobuf.wire import MALFORMED
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import of_columns

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_FLAGS: Final = (
    "emit.default.values",
    "enums.as.ints",
    "upcast.unsigned.ints",
    "unwrap.primitive.wrapper.types",
    "retain.empty.message.types",
)
_ANY_AS_JSON: Final = "convert.any.fields.to.json"
_KNOWN: Final = {"mode", "recursive.fields.max.depth", _ANY_AS_JSON, *_FLAGS}
CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
EXTENSIONS: Final = "spark.sql.function.protobufExtensions.enabled"
READS: Final = ("message_name", "binary_file_descriptor_set", "options", CASE_SENSITIVE)


def descriptor_of(expr: Expr) -> tuple[Descriptor, dict[int, str]]:
    """Of a node's messages; and the names of the types that fields have, by their numbers.

    :raises OptionError: it is not to be had.
    """
    descriptors = expr.params["binary_file_descriptor_set"]
    if descriptors is None:
        raise OptionError("it names a class of Java: give the file of a descriptor set")
    try:
        from engine.expressions import protobuf_messages
    except ImportError:
        raise OptionError(
            "it needs the library protobuf: pip install 'airflow-provider-continuous[registry]'"
        ) from None
    try:
        known = protobuf_messages.DescriptorSet(descriptors)
        found = known.first_message(expr.params["message_name"])
    except ConfigError as error:
        raise OptionError(error.message) from None
    return found, protobuf_messages.NAMES_OF_TYPES


def minds_case(expr: Expr) -> bool:
    """Whether names of fields go together only in the same case."""
    return bool(expr.params[CASE_SENSITIVE].lower() == "true")


_MODE: Final = "FAILFAST"


@dataclass(frozen=True)
class _Reading:
    """How the messages of a column are read."""

    fails_fast: bool
    messages: Messages
    convert: Convert


def _reading(expr: Expr) -> _Reading:
    """:raises OptionError: it is not supported."""
    options = Options(expr.params["options"], _KNOWN)
    fails_fast = options.fails_fast(_MODE)
    flags = {name: options.flag(name, False) for name in _FLAGS}
    if options.flag(_ANY_AS_JSON, False):
        raise OptionError(f"the option {_ANY_AS_JSON} is not supported")
    descriptor, names = descriptor_of(expr)
    conversion = Conversion(
        emits_defaults=flags["emit.default.values"], minds_case=minds_case(expr)
    )
    try:
        messages = Messages(descriptor, names, {})
        return _Reading(fails_fast, messages, conversion.of(messages, expr.dtype))
    except UnsupportedMessageError as error:
        raise OptionError(str(error)) from None


@strict(
    "ProtobufDataToCatalyst",
    can_fail=may_fail_fast(_MODE),
    supports=refused_for(_reading),
    loop=True,
    reads=READS,
    presumes=(EXTENSIONS,),
)
def from_protobuf(expr: Expr, context: Context) -> ValueFunction:
    """A struct per message."""
    reading, dtype = _reading(expr), expr.dtype

    def value(record: bytes | None) -> Any:
        if record is None:
            return None
        try:
            return reading.convert(reading.messages.read(record))
        except MALFORMED as error:
            if reading.fails_fast:
                raise _malformed(error) from None
            return None

    return of_columns(lambda array: pa.array([value(each) for each in array.to_pylist()], dtype))


def _malformed(error: Exception) -> TransformError:
    return failure(
        "MALFORMED_PROTOBUF_MESSAGE",
        f"A message cannot be read: {error}.",
        "Use the mode PERMISSIVE to get NULL instead.",
    )
