"""Messages of Protobuf as Spark reads and writes them, with its library for Java, 4.33."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from engine.errors import TransformError
from engine.expressions.compile import compile_expression, unsupported
from engine.expressions.protobuf.from_protobuf import CASE_SENSITIVE
from engine.expressions.protobuf.wire import write_length
from engine.expressions.tree import Expr
from engine.expressions.types import DAY_TIME_INTERVAL, TIMESTAMP
from tests.protobuf_sets import descriptor_set

_ITEM = pa.struct([("sku", pa.string()), ("n", pa.int32())])
_LOOSE = {"mode": "PERMISSIVE"}
_MAP = pa.map_(pa.string(), pa.int64())
_INTS = pa.list_(pa.field("element", pa.int32(), False))


def _node(op: str, child: pa.DataType, dtype: pa.DataType, message: str, **params: Any) -> Expr:
    column = Expr("Column", (), child, True, {"ordinal": 0, "name": "c"})
    given = {
        "message_name": message,
        "binary_file_descriptor_set": descriptor_set(),
        "options": {},
        CASE_SENSITIVE: "false",
        **params,
    }
    return Expr(op, (column,), dtype, True, given)


def _reader(message: str, dtype: pa.DataType, **params: Any) -> Expr:
    return _node("ProtobufDataToCatalyst", pa.binary(), dtype, message, **params)


def _writer(message: str, dtype: pa.DataType, **params: Any) -> Expr:
    return _node("CatalystDataToProtobuf", dtype, pa.binary(), message, **params)


def _result(expr: Expr, value: Any) -> Any:
    (column,) = expr.children
    batch = pa.RecordBatch.from_arrays([pa.array([value], column.dtype)], ["c"])
    return compile_expression(expr)(batch).to_pylist()[0]


READ: list[tuple[str, str, pa.DataType, str, Any]] = [
    # Of ten bytes the highest bit is set, whatever the tenth is.
    ("Order", "l", pa.int64(), "1880808080808080808000", -(2**63)),
    ("Order", "t", pa.bool_(), "0880808080808080808000", True),
    ("Order", "i", pa.int32(), "1080808080f8ffffffff01", -(2**31)),
    ("Order", "u32", pa.int32(), "20ffffffff0f", -1),
    ("Order", "u64", pa.int64(), "28ffffffffffffffffff01", -1),
    ("Order", "f32", pa.int32(), "45ffffffff", -1),
    ("Order", "s32", pa.int32(), "3003", -2),
    ("Order", "s", pa.string(), "72026162", "ab"),
    ("Order", "e", pa.string(), "800107", "UNKNOWN_ENUM_VALUE_Kind_7"),
    ("Order", "e", pa.int32(), "800107", 7),
    ("Order", "i", pa.int32(), "1000", None),  # it does not tell whether it is there
    ("Order", "oi", pa.int32(), "c80100", 0),
    ("Order", "a", _INTS, "a80105aa01020607", [5, 6, 7]),
    ("Order", "item", _ITEM, "9a01030a01789a01021005", {"sku": "x", "n": 5}),  # merged
    ("Order", "y", pa.string(), "e2010161d80105", None),  # of a oneof the last counts
    ("Order", "x", pa.int32(), "e2010161d80105", 5),
    ("Order", "dur", DAY_TIME_INTERVAL, "920105080110e807", timedelta(seconds=1, microseconds=1)),
    ("Order", "m", _MAP, "ba0100ba01021005ba01021006", [("", 0), ("", 5), ("", 6)]),
    ("Old", "s", pa.string(), "08011200", "none"),
    ("Old", "k", pa.string(), "08011200", "MIDDLE"),
    ("Old", "s", pa.string(), "080112001a01ff", "\ufffd"),  # only proto3 minds
    ("Node", "l", pa.int64(), "c33ec43e0807", 7),  # a group that nobody knows
]


@pytest.mark.parametrize(("message", "name", "dtype", "octets", "value"), READ)
def test_reading(message: str, name: str, dtype: pa.DataType, octets: str, value: Any) -> None:
    expr = _reader(message, pa.struct([(name, dtype)]))
    assert unsupported(expr) == []
    assert _result(expr, bytes.fromhex(octets))[name] == value


MALFORMED = {
    "a number is cut off": ("Order", "08"),
    "a number of eleven bytes": ("Order", "18ffffffffffffffffffff01"),
    "a field without a number": ("Order", "00"),
    "another type": ("Order", "0d01000000"),
    "a group that has not begun": ("Order", "c43e"),
    "a group within another ends first": ("Order", "c33ecc3e"),
    "a text of proto3 that is no UTF-8": ("Order", "7201ff"),
    "a key that is no UTF-8, also of proto2": ("Old", "0801120042030a01ff"),
    "seconds beyond a BIGINT": ("Order", "8a010a08b190f1bb86cfb8f220"),
    "a required field is missing": ("Old", "0801"),
    "one within a message is missing": ("Old", "080112004a00"),
    "one in the value that an entry lacks": ("Old", "080112008a0100"),
    "an unknown symbol of proto2": ("Old", "080112002005"),
}


@pytest.mark.parametrize(("message", "octets"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed(message: str, octets: str) -> None:
    dtype = pa.struct([("at", TIMESTAMP)] if message == "Order" else [("r", pa.int32())])
    with pytest.raises(TransformError, match="MALFORMED_PROTOBUF_MESSAGE"):
        _result(_reader(message, dtype), bytes.fromhex(octets))
    assert _result(_reader(message, dtype, options=_LOOSE), bytes.fromhex(octets)) is None


def test_a_hundred_messages_within_each_other() -> None:
    found = b"\x08\x05"
    for depth in range(1, 102):
        found = b"\x12" + write_length(found)
        result = _result(_reader("Node", pa.struct([("l", pa.int64())]), options=_LOOSE), found)
        assert (result is None) == (depth > 100), depth


_TEXT, _INT, _LONG, _UNSIGNED = pa.string(), pa.int32(), pa.int64(), pa.decimal128(20, 0)
_Row = dict[str, tuple[pa.DataType, Any]]
WRITTEN: list[tuple[str, _Row, str]] = [
    ("Order", {"t": (pa.bool_(), False), "s": (_TEXT, "")}, ""),
    ("Order", {"b": (pa.binary(), b"")}, "7a00"),  # which Java finds unequal to its own
    ("Order", {"d": (pa.float64(), -0.0)}, "690000000000000080"),
    ("Order", {"u32": (_LONG, -1)}, "20ffffffff0f"),
    ("Order", {"s": (_TEXT, "x"), "I": (_INT, 1)}, "1001720178"),  # by number, in any case
    ("Order", {"u64": (_UNSIGNED, Decimal(7))}, "2807"),
    ("Order", {"e": (_TEXT, "SENT")}, "800105"),
    ("Order", {"e": (_INT, 0)}, ""),
    ("Order", {"m": (_MAP, [("", 0), ("b", None)])}, "ba01040a001000ba01050a01621000"),
    ("Order", {"y": (_TEXT, "a"), "x": (_INT, 5)}, "d80105"),  # of a oneof the last counts
    ("Order", {"x": (_INT, 5), "y": (_TEXT, None)}, "d80105"),
    ("Order", {"a": (pa.list_(_INT), [0, 1]), "oi": (_INT, 0)}, "aa01020001c80100"),
    ("Order", {"un": (pa.list_(_LONG), [1, 0])}, "980202980200"),
    ("Order", {"at": (TIMESTAMP, -1)}, "8a010b10c0fbc2ffffffffffff01"),
    ("Old", {"r": (_INT, None), "rs": (_TEXT, "")}, "08001200"),
    ("Wrapped", {"wi": (_INT, 0), "ws": (_TEXT, "x")}, "120042030a0178"),
]


def _dtype(row: _Row) -> pa.DataType:
    return pa.struct([(name, dtype) for name, (dtype, _) in row.items()])


def _values(row: _Row) -> dict[str, Any]:
    return {name: value for name, (_, value) in row.items()}


@pytest.mark.parametrize(("message", "row", "octets"), WRITTEN)
def test_writing(message: str, row: _Row, octets: str) -> None:
    expr = _writer(message, _dtype(row))
    assert unsupported(expr) == []
    assert _result(expr, _values(row)).hex() == octets
    assert _result(expr, None) is None


FAILING: dict[str, tuple[str, _Row, str]] = {
    "no such symbol": (
        "Order",
        {"e": (_TEXT, "LOST")},
        "CANNOT_CONVERT_SQL_VALUE_TO_PROTOBUF_ENUM_TYPE",
    ),
    "beyond a BIGINT": (
        "Order",
        {"u64": (_UNSIGNED, Decimal(2**63))},
        "java.lang.ArithmeticException: BigInteger out of long range",
    ),
    "NULL in an array": (
        "Order",
        {"a": (pa.list_(_INT), [None])},
        "java.lang.NullPointerException",
    ),
    "NULL for a message in a map": (
        "Order",
        {"mi": (pa.map_(_INT, _ITEM), [(1, None)])},
        "FieldDescriptor.getDefaultValue",
    ),
    "NULL for a required message": (
        "Need",
        {"r": (_INT, 1), "need": (pa.struct([("n", _INT)]), None)},
        "Message missing required fields: need",
    ),
}


@pytest.mark.parametrize(("message", "row", "why"), FAILING.values(), ids=FAILING)
def test_what_cannot_be_written(message: str, row: _Row, why: str) -> None:
    with pytest.raises(TransformError, match=why):
        _result(_writer(message, _dtype(row)), _values(row))


def test_what_is_refused() -> None:
    dtype = pa.struct([("l", pa.int64())])
    strings = pa.list_(pa.field("element", pa.string(), False))
    wrapped = {"options": {"unwrap.primitive.wrapper.types": "true"}}
    refused = {
        "convert.any.fields.to.json": _reader(
            "Order", dtype, options={"convert.any.fields.to.json": "true"}
        ),
        "the mode DROPMALFORMED": _reader("Order", dtype, options={"mode": "DROPMALFORMED"}),
        "'pathGlobFilter'": _reader("Order", dtype, options={"pathGlobFilter": "*"}),
        "a class of Java": _reader("Order", dtype, binary_file_descriptor_set=None),
        "no message of the name 'Other'": _reader("Other", dtype),
        "This is no descriptor set": _reader("Order", dtype, binary_file_descriptor_set=b"\xff"),
        "set the option emit.default.values": _reader(
            "Wrapped", pa.struct([("wsl", strings)]), **wrapped
        ),
        "has no field other": _writer("Order", pa.struct([("other", pa.int64())])),
        "field old.Old.rs has no value": _writer("Old", pa.struct([("r", pa.int32())])),
        "DECIMAL\\(22,0\\) does not go into": _writer(
            "Order", pa.struct([("u64", pa.decimal128(22, 0))])
        ),
        "INT does not go into": _writer("Order", pa.struct([("a", pa.int32())])),
        "two columns are one field": _writer(
            "Order", pa.struct([("i", pa.int32()), ("I", pa.int32())])
        ),
        "only a struct is a message": _writer("Order", pa.int32()),
    }
    for why, expr in refused.items():
        (reason,) = unsupported(expr)
        with pytest.raises(ValueError, match=why):
            raise ValueError(reason)


def _odd_set(syntax: str, *fields: tuple[str, int]) -> bytes:
    """Of a message M with fields of these names and types."""
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="odd.proto", syntax=syntax)
    if syntax == "editions":
        file.edition = descriptor_pb2.EDITION_2023
    message = file.message_type.add(name="M")
    for number, (name, kind) in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, type=kind, label=1)
        if kind == descriptor_pb2.FieldDescriptorProto.TYPE_GROUP:
            message.nested_type.add(name="G")
            field.type_name = ".M.G"
    return bytes(found.SerializeToString())


def test_messages_that_are_refused() -> None:
    whole = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
    group = descriptor_pb2.FieldDescriptorProto.TYPE_GROUP
    dtype = pa.struct([("a", pa.int64())])
    cases = {
        "has the field a in more than one case": _odd_set("proto2", ("a", whole), ("A", whole)),
        "the group M.g is not supported": _odd_set("proto2", ("a", whole), ("g", group)),
        "has the syntax editions": _odd_set("editions", ("a", whole)),
    }
    for why, content in cases.items():
        (reason,) = unsupported(_reader("M", dtype, binary_file_descriptor_set=content))
        assert why in reason
    for why, content in [*cases.items()][1:]:
        written = pa.struct([("g", pa.struct([]))]) if "group" in why else dtype
        (reason,) = unsupported(_writer("M", written, binary_file_descriptor_set=content))
        assert why in reason
    both = _odd_set("proto2", ("a", whole), ("A", whole))
    minds = {CASE_SENSITIVE: "true", "binary_file_descriptor_set": both}
    assert _result(_reader("M", dtype, **minds), b"\x08\x05\x10\x06") == {"a": 5}
