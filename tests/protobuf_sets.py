"""Descriptor sets of Protobuf for tests, made without its compiler."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2

_KNOWN: Final = (timestamp_pb2, duration_pb2, wrappers_pb2)
_TYPES: Final = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
_WELL: Final = ".google.protobuf"

SHOP: Final[dict[str, list[str]]] = {
    "Item": ["string sku = 1", "int32 n = 2"],
    "Nothing": [],
    "Node": ["int64 l = 1", ".shop.Node next = 2", "repeated .shop.Node kids = 3",
             "map<string,.shop.Node> by = 4"],
    "Order": [
        "bool t = 1", "int32 i = 2", "int64 l = 3", "uint32 u32 = 4", "uint64 u64 = 5",
        "sint32 s32 = 6", "sint64 s64 = 7", "fixed32 f32 = 8", "fixed64 f64 = 9",
        "sfixed32 sf32 = 10", "sfixed64 sf64 = 11", "float f = 12", "double d = 13",
        "string s = 14", "bytes b = 15", ".shop.Kind e = 16", f"{_WELL}.Timestamp at = 17",
        f"{_WELL}.Duration dur = 18", ".shop.Item item = 19", "repeated .shop.Item items = 20",
        "repeated int32 a = 21", "repeated string names = 22", "map<string,int64> m = 23",
        "map<int32,.shop.Item> mi = 24", "optional int32 oi = 25", "optional string os = 26",
        "oneof int32 x = 27", "oneof string y = 28", "oneof .shop.Item z = 29",
        f"{_WELL}.Int32Value wi = 30", f"{_WELL}.StringValue ws = 31",
        f"{_WELL}.UInt64Value wu = 32", ".shop.Nothing none = 33", "repeated .shop.Kind ks = 34",
        "unpacked sint64 un = 35", "map<string,.shop.Kind> mk = 36", "map<bool,bytes> mb = 37",
        "repeated uint64 us = 38", "repeated bytes bs = 39", "repeated double ds = 40",
    ],
    "Wrapped": [
        f"{_WELL}.BoolValue wb = 1", f"{_WELL}.Int32Value wi = 2", f"{_WELL}.UInt32Value wu = 3",
        f"{_WELL}.Int64Value wl = 4", f"{_WELL}.UInt64Value wul = 5", f"{_WELL}.FloatValue wf = 6",
        f"{_WELL}.DoubleValue wd = 7", f"{_WELL}.StringValue ws = 8", f"{_WELL}.BytesValue wy = 9",
        f"repeated {_WELL}.StringValue wsl = 10", f"repeated {_WELL}.Int32Value wil = 11",
        f"map<string,{_WELL}.UInt64Value> wm = 12",
    ],
}  # fmt: skip
"""Messages of proto3, as their compiler would take them."""
LEGACY: Final[dict[str, list[str]]] = {
    "Inner": ["required int32 n = 1", "optional string s = 2"],
    "Old": [
        "required int32 r = 1", "required string rs = 2", "optional string s = 3 [none]",
        "optional .old.Level k = 4 [MIDDLE]", "repeated .old.Level ks = 5",
        "optional double d = 6 [-0.5]", "optional bytes b = 7 [a\\001\\377]",
        "map<string,bytes> m = 8", "optional .old.Inner in = 9", "optional .shop.Kind k3 = 10",
        "optional uint64 u = 11 [18446744073709551615]", "optional float f = 12 [0.1]",
        "repeated .old.Inner ins = 13", "packed .old.Level pks = 14", "optional bool t = 15",
        "optional .old.Level k0 = 16", "map<int32,.old.Inner> mi = 17",
    ],
    "Need": ["required int32 r = 1", "optional string rs = 2", "required .old.Inner need = 3"],
}  # fmt: skip
"""Messages of proto2."""


def descriptor_set() -> bytes:
    """What ``protoc --include_imports --descriptor_set_out`` makes of these messages."""
    found = descriptor_pb2.FileDescriptorSet()
    for each in _KNOWN:
        each.DESCRIPTOR.CopyToProto(found.file.add())
    names = [file.name for file in found.file]
    shop = found.file.add(name="shop.proto", package="shop", syntax="proto3", dependency=names)
    _enum(shop, "Kind", {"NEW": 0, "PAID": 1, "SENT": 5})
    old = found.file.add(
        name="old.proto", package="old", syntax="proto2", dependency=["shop.proto"]
    )
    _enum(old, "Level", {"LOW": 2, "MIDDLE": 1, "HALF": 1, "HIGH": -3})
    for file, messages in ((shop, SHOP), (old, LEGACY)):
        for name, fields in messages.items():
            _message(file, name, fields)
    return bytes(found.SerializeToString())


def _enum(file: Any, name: str, values: dict[str, int]) -> None:
    made = file.enum_type.add(name=name)
    made.options.allow_alias = len(set(values.values())) < len(values)
    for symbol, number in values.items():
        made.value.add(name=symbol, number=number)


def _message(file: Any, name: str, fields: list[str]) -> None:
    made = file.message_type.add(name=name)
    if any(text.startswith("oneof ") for text in fields):
        made.oneof_decl.add(name="pick")
    for text in fields:
        text, _, default = text.partition(" [")
        declared, _, number = text.partition(" = ")
        *labels, kind, field_name = declared.replace("map<", "map ").split()
        label = labels[0] if labels else ""
        if label == "map":
            key, _, value = kind.rstrip(">").partition(",")
            entry = made.nested_type.add(name=f"{field_name.title()}Entry")
            entry.options.map_entry = True
            _field(entry, "key", 1, key, "optional")
            _field(entry, "value", 2, value, "optional")
            kind, label = f".{file.package}.{name}.{entry.name}", "repeated"
        field = _field(made, field_name, int(number), kind, label)
        if default:
            field.default_value = default.rstrip("]")
        if label == "oneof":
            field.oneof_index = 0
        if label == "optional" and file.syntax == "proto3":
            field.proto3_optional = True
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field_name}")


def _field(message: Any, name: str, number: int, kind: str, label: str) -> Any:
    field = message.field.add(name=name, number=number)
    field.label = {"required": 2}.get(label, 1 + 2 * (label in ("repeated", "unpacked", "packed")))
    if label in ("packed", "unpacked"):
        field.options.packed = label == "packed"
    if kind.startswith("."):
        is_enum = kind.rpartition(".")[2] in ("Kind", "Level")
        field.type, field.type_name = _TYPES["enum" if is_enum else "message"], kind
    else:
        field.type = _TYPES[kind]
    return field
