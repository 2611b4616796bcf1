"""``to_protobuf``: structs as messages of Protobuf, where Spark has its package spark-protobuf.

At its options Spark does not look. Messages have to be known by a descriptor set.

Source: ``CatalystDataToProtobuf`` of Spark.
"""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.options import OptionError, refused_for
from engine.expressions.protobuf.encoding import Encode, Encoding
from engine.expressions.protobuf.from_protobuf import EXTENSIONS, READS, descriptor_of, minds_case
from engine.expressions.protobuf.messages import UnsupportedMessageError
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import of_columns


def _encode(expr: Expr) -> Encode:
    """:raises OptionError: it is not supported."""
    (child,) = expr.children
    descriptor, names = descriptor_of(expr)
    if not pa.types.is_struct(child.dtype):
        raise OptionError("only a struct is a message")
    try:
        return Encoding(names, minds_case=minds_case(expr)).message(child.dtype, descriptor)
    except UnsupportedMessageError as error:
        raise OptionError(str(error)) from None


@strict(
    "CatalystDataToProtobuf",
    can_fail=always,
    supports=refused_for(_encode),
    loop=True,
    reads=READS,
    presumes=(EXTENSIONS,),
)
def to_protobuf(expr: Expr, context: Context) -> ValueFunction:
    """A message per struct."""
    encode = _encode(expr)
    return of_columns(lambda array: pa.array(encode(array), pa.binary()))
