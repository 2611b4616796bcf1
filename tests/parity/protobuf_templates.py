"""Templates of ``from_protobuf`` and ``to_protobuf``, for Spark's package spark-protobuf.

They are no family among the others: the package cannot be had everywhere where these can be.
"""

from __future__ import annotations

import random
from typing import Any, Final

import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor

from engine.expressions.protobuf.wire import write_length
from engine.expressions.protobuf_messages import DescriptorSet
from tests.parity.columns import draw, text, whole
from tests.protobuf_sets import descriptor_set

JARS = ("org.apache.spark:spark-protobuf_2.13:4.2.0",)

_SET: Final = descriptor_set()


def _number(field: Any, rng: random.Random) -> Any:
    kind = field.cpp_type
    if field.enum_type is not None:
        known = [each.number for each in field.enum_type.values]
        return rng.choice(known if field.enum_type.is_closed else [*known, 7, -1])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind == FieldDescriptor.CPPTYPE_STRING:
        written = text(rng).replace("\x00", "")
        return written.encode() if field.type == FieldDescriptor.TYPE_BYTES else written
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), rng.uniform(-9, 9)])
    bits = 32 if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    number = whole(bits)(rng) or 0
    if kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return number % 2**bits
    return number


def _fill(message: Any, rng: random.Random, depth: int = 0) -> Any:
    """With values of any kind, in some of its fields."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and rng.random() < 0.3 + 0.2 * depth:
            continue
        part = getattr(message, field.name)
        if field.message_type is None:
            if field.is_repeated:
                part.extend(_number(field, rng) for _ in range(rng.randint(0, 3)))
            else:
                setattr(message, field.name, _number(field, rng))
        elif field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            for _ in range(rng.randint(0, 2)):
                if value.message_type is None:
                    part[_number(key, rng)] = _number(value, rng)
                else:
                    _fill(part[_number(key, rng)], rng, depth + 1)
        elif field.is_repeated:
            for _ in range(rng.randint(0, 2)):
                _fill(part.add(), rng, depth + 1)
        else:
            part.SetInParent()
            if depth < 3:
                _fill(part, rng, depth + 1)
    return message


def _written(name: str) -> Any:
    """Draws serialized messages, some of them damaged."""
    make = message_factory.GetMessageClass(DescriptorSet(_SET).message(name))

    def octets(rng: random.Random) -> bytes:
        found = bytes(_fill(make(), rng).SerializePartialToString())
        dice = rng.random()
        if dice < 0.1:
            return found[: rng.randint(0, len(found))]
        if dice < 0.25 and found:
            at = rng.randrange(len(found))
            return found[:at] + rng.randbytes(1) + found[at + 1 :]
        if dice < 0.35:  # messages within it are merged, and of others the last counts
            return found + bytes(_fill(make(), rng).SerializePartialToString())
        return found

    return octets


def _parsed(words: str) -> list[bytes]:
    return [bytes.fromhex(each) for each in words.split()]


_SHORT: Final = _parsed(
    "0801 0802 08808000 08 0a00 0d01000000 1080808080f8ffffffff01 10ffffffff0f 109601 "
    "20ffffffff0f 28ffffffffffffffffff01 3001 10ffffffffffffffffffff01 "
    "1880808080808080808001 18808080808080808080 7201ff 7203eda080 72026162 7a01ff 72056162 "
    "800107 8001ffffffffffffffffff01 61000000 aa01020102 a80105aa010106 aa01028080 00 "
    "d80105e2010161 e2010161d80105 ea0100d80100 c33ec43e c33ecc3e c33e c43e 0c c63e ba0100 "
    "ba01030a0161 ba01050a01611005ba01050a01611005 ba01030a01ff ba01021005 ba01021805 "
    "8a010b08ffffffffffffffffff01 8a0100920100 8a010d080110ffffffffffffffffff01 9a01020800 "
    "8a010b0880e88380808080808001 920106080110e807 92010a08b190f1bb86cfb8f220 "
    "8a010a08b190f1bb86cfb8f220 9a01020a009a01021005 f20100 f201020805 9a010210019a01021001 "
    "9a01021500 a201021200 ffffffffffffffffffffffff"
)


_OLD: Final = _parsed(
    "08011200 0801 1200 080112002005 1a01ff 080112002001 080112002805 080112002a020105 "
    "080112008a0100 080112008a010412020805 1a01c3 080112004a00 080112004a020805 "
    "4a0208054a00 080112005007 08011201ff 0801120042030a01ff 08011203eda080 080112004200 "
    "6a00 720105 720101 7001 2801 2a0101"
)


def _deep(rng: random.Random) -> bytes:
    """Nodes in nodes; Java reads a hundred of them, as many groups as well."""
    found = b"\x08\x05"
    depth = rng.choice([1, 3, 20, 99, 100, 101])
    if rng.random() < 0.2:
        return b"\xc3\x3e" * depth + b"\xc4\x3e" * depth
    for _ in range(depth):
        found = b"\x12" + write_length(found)
    return found


COLUMNS = {
    "pb": (pa.binary(), draw([b""], _written("Order"))),
    "pb_old": (pa.binary(), draw([b""], _written("Old"))),
    "pb_old_bits": (
        pa.binary(),
        draw(_OLD, lambda rng: b"\x08\x01\x12\x00" + rng.choice(_OLD) + rng.choice(_OLD)),
    ),
    "pb_node": (pa.binary(), draw([b"", b"\x1a\x00\x1a\x02\x08\x01"], _deep)),
    "pb_wrapped": (pa.binary(), draw([b""], _written("Wrapped"))),
    "pb_bits": (pa.binary(), draw(_SHORT, lambda rng: rng.choice(_SHORT) + rng.choice(_SHORT))),
}


def _from(column: str, name: str, **options: str) -> str:
    pairs = "".join(f", '{key.replace('_', '.')}', '{value}'" for key, value in options.items())
    given = f", map({pairs[2:]})" if pairs else ""
    return f"from_protobuf({column}, '{name}', X'{_SET.hex()}'{given})"


def _to(struct: str, name: str) -> str:
    return f"to_protobuf({struct}, '{name}', X'{_SET.hex()}')"


_LOOSE: Final = {"mode": "PERMISSIVE"}
_ITEM: Final = "named_struct('sku', s, 'n', i)"
_NUMBERS: Final = (
    "named_struct('t', t, 'i', i, 'l', l, 'u32', i2, 'u64', l2, 's32', h, 's64', l, 'f32', b,"
    " 'f64', l2, 'sf32', i, 'sf64', l, 'f', f, 'd', d, 's', s, 'b', bin)"
)
TEMPLATES = {
    "from_protobuf": [
        _from("pb", "Order"),
        _from("pb", "shop.Order", **_LOOSE, retain_empty_message_types="true"),
        _from("pb", "Order", **_LOOSE, emit_default_values="true", upcast_unsigned_ints="true"),
        _from("pb", "Order", **_LOOSE, enums_as_ints="true"),
        _from("pb", "Order", **_LOOSE, unwrap_primitive_wrapper_types="true"),
        _from("pb_bits", "Order"),
        _from("pb_bits", "Order", **_LOOSE),
        _from("pb_bits", "Order", **_LOOSE, emit_default_values="true", enums_as_ints="true"),
        _from("pb_old", "Old"),
        _from("pb_old", "Old", **_LOOSE, enums_as_ints="true"),
        _from("pb_old", "Old", **_LOOSE, emit_default_values="true"),
        _from("pb_old_bits", "Old"),
        _from("pb_old_bits", "Old", **_LOOSE, enums_as_ints="true"),
        _from("pb_node", "Node", recursive_fields_max_depth="3"),
        _from("pb_node", "Node", **_LOOSE, recursive_fields_max_depth="1"),
        _from("pb_wrapped", "Wrapped", **_LOOSE),
        _from(
            "pb_wrapped", "Wrapped", **_LOOSE, unwrap_primitive_wrapper_types="true",
            emit_default_values="true",
        ),
        _from(
            "pb_wrapped", "Wrapped", **_LOOSE, unwrap_primitive_wrapper_types="true",
            emit_default_values="true", upcast_unsigned_ints="true",
        ),
    ],
    "to_protobuf": [
        _to(_NUMBERS, "Order"),
        _to("named_struct('F', f, 'T', t, 'i', dt, 's', raw)", "Order"),
        _to("named_struct('u64', cast(cast(l AS DECIMAL(18, 0)) * 11 AS DECIMAL(20, 0)), 'u32', l)",
            "Order"),
        _to("named_struct('e', if(n > 3, 'PAID', if(n > 0, 'NEW', c)))", "Order"),
        _to("named_struct('e', n)", "Order"),
        _to("named_struct('at', ts)", "Order"),
        _to(f"named_struct('items', array({_ITEM}, {_ITEM}), 'item', {_ITEM})", "Order"),
        _to("named_struct('a', array(coalesce(i, 1), i2), 'names', array(s, 'x'))", "Order"),
        _to("named_struct('a', array(coalesce(i, 1), 0), 'names', array('', coalesce(s, '')))",
            "Order"),
        _to("named_struct('m', map('b', l, coalesce(s, ''), l2))", "Order"),
        _to(f"named_struct('mi', map(0, {_ITEM}, 1, if(n > 3, {_ITEM}, null)))", "Order"),
        _to("named_struct('y', s, 'x', i)", "Order"),
        _to(f"named_struct('x', i, 'z', if(t, {_ITEM}, null), 'y', s)", "Order"),
        _to("named_struct('oi', i, 'os', s, 'ks', array('PAID', 'NEW'), 'un', array(l, l))",
            "Order"),
        _to("if(t, named_struct('i', i), null)", "Order"),
        _to("named_struct('r', i, 'rs', s, 'k', c, 'd', d, 'b', bin, 'm', map(coalesce(s, ''),"
            " bin), 'in', named_struct('n', i))", "Old"),
        _to("named_struct('r', 1, 'rs', '', 'need', if(t, named_struct('n', i), null))", "Need"),
        _to("named_struct('wb', t, 'wi', i, 'wu', i2, 'wl', l, 'wul', l2, 'wf', f, 'wd', d,"
            " 'ws', s, 'wy', bin)", "Wrapped"),
        _to("named_struct('wsl', array(coalesce(s, '')), 'wil', array(coalesce(i, 0)))", "Wrapped"),
        _from(_to(_NUMBERS, "Order"), "Order"),
    ],
}  # fmt: skip
