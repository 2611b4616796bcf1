"""HLL sketches as they are stored: a list of coupons, a hash table, or registers.

===== ==========================================================================
byte
===== ==========================================================================
0     length of this preamble in 4 bytes: 2 list, 3 hash table, 10 registers
1     version: 1
2     family: 7
3     number of slots, as a power of two: 4 to 21
4     size of the table, likewise
5     flags: 4 empty, 8 compact, 16 out of order, 32 sums are to be made anew
6     number of coupons of a list; the least register
7     0 list, 1 hash table, 2 registers; plus 4 for registers of 6 bits, 8 of a byte
8     number of coupons of a hash table, 4 bytes; then these
8-31  registers: the running estimate, sums of 2**-n of registers below 32 and from
      there, as doubles
32-35 how many are as the least
36-39 how many registers of 4 bits are 15, which stands for what follows them as coupons
40    registers; those of 4 bits from the least on
===== ==========================================================================

Source: ``PreambleUtil.java``, ``Hll4Array.java``, ``Hll6Array.java`` of datasketches-java.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.expressions.sketches.hll_coupons import (
    LIST,
    LIST_SIZE,
    SET,
    SET_LG_SIZE,
    Coupons,
)
from engine.expressions.sketches.hll_large import lg_size_for, read_large
from engine.expressions.sketches.hll_registers import BYTES, REGISTERS, Registers, Values
from engine.expressions.sketches.memory import (
    Memory,
    SketchError,
    bad_argument,
    family,
    index_out_of_bounds,
    negative_size,
    null_pointer,
    out_of_bounds,
)

_PREAMBLES: Final = {LIST: 2, SET: 3, REGISTERS: 10}
_NIBBLES, _SIXES = 0, 4
_TYPE: Final = 12
_LG_SLOTS: Final = range(4, 22)


def read_hll(data: bytes) -> Coupons | Registers:
    """What the bytes say.

    :raises SketchError: they are no HLL sketch.
    """
    memory = Memory(data)
    if len(data) < 8 or len(data) < 4 * (data[0] & 0x3F):
        raise bad_argument(f"Possible Corruption, it has {len(data)} bytes.")
    longs, mode, lg_slots = data[0] & 0x3F, data[7], data[3]
    form = mode & 3
    if memory.unsigned(1) != 1 or memory.unsigned(2) != 7 or longs != _PREAMBLES.get(form):
        raise _bad_preamble(memory, form)
    if memory.unsigned(7) & _TYPE == _TYPE:
        raise _bad_type()
    if form == REGISTERS:
        return _read_registers(memory, lg_slots)
    if form == LIST:
        count = memory.unsigned(6)
        listed = _read_ints(memory, 8, count)
        if count > LIST_SIZE:
            raise out_of_bounds(0, count, LIST_SIZE)
        return Coupons(lg_slots, listed + [0] * (LIST_SIZE - count), count)
    count, lg_size = memory.int32(8), memory.unsigned(4)
    if memory.unsigned(5) & 8:
        table = Coupons(lg_slots, [0] * (1 << SET_LG_SIZE), 0, hashed=True)
        for number in range(count):
            table.take(memory.int32(12 + 4 * number) & 0xFFFFFFFF)
        return table
    if lg_size < SET_LG_SIZE:
        lg_size = max(SET_LG_SIZE, lg_size_for(count))
    return Coupons(lg_slots, _read_ints(memory, 12, 1 << (lg_size & 31)), count, hashed=True)


def check_lg_slots(lg_slots: int) -> None:
    """The number of slots, as a power of two."""
    if lg_slots not in _LG_SLOTS:
        raise bad_argument(f"Log K must be between 4 and 21, inclusive: {lg_slots}")


def _bad_preamble(memory: Memory, form: int) -> SketchError:
    """The library quotes the preamble, all of it: what is missing there is the error then."""
    family(memory.unsigned(2))
    if memory.unsigned(7) & _TYPE == _TYPE:
        return _bad_type()
    if form == SET:
        memory.int32(8)
    if form == REGISTERS:
        for at in (8, 16, 24):
            memory.double(at)
        for at in (32, 36):
            memory.int32(at)
    return bad_argument("Possible Corruption, Invalid Preamble.")


def _bad_type() -> SketchError:
    return bad_argument("Possible Corruption, Invalid HLL type.")


def _read_ints(memory: Memory, at: int, count: int) -> list[int]:
    found: list[int] = np.frombuffer(memory.some(at, count * 4), "<u4").tolist()
    return found


def _read_registers(memory: Memory, lg_slots: int) -> Registers:
    """As Java shifts, slots may be of any number."""
    slots, lg_bytes = 1 << (lg_slots & 31), lg_slots & 31
    flags, kind = memory.unsigned(5), memory.unsigned(7) & _TYPE
    if kind == _NIBBLES:
        lg_bytes = (lg_slots - 1) & 31
    if kind != _SIXES and lg_bytes == 31:
        raise negative_size(-(2**31))
    read = {_NIBBLES: _read_nibbles, _SIXES: _read_sixes, BYTES: _read_bytes}[kind]
    registers = Registers(
        lg_slots,
        read(memory, slots),
        memory.double(8),
        memory.double(16),
        memory.double(24),
        memory.unsigned(6),
        memory.int32(32),
        bool(flags & 16),
        kind == BYTES,
    )
    if kind == _NIBBLES:
        registers.lacking = _take_large(memory, registers)
    if kind == _SIXES and slots == 1:
        registers.lacking = index_out_of_bounds(1)
    if flags & 32 and kind == BYTES:
        registers.add_up()
    return registers


def _read_bytes(memory: Memory, slots: int) -> Values:
    return np.frombuffer(memory.some(40, slots), np.uint8).astype(np.int16)


def _read_sixes(memory: Memory, slots: int) -> Values:
    stored = memory.some(40, (slots * 3 & 0xFFFFFFFF) // 4 + 1)
    bits = np.unpackbits(np.frombuffer(stored, np.uint8), count=slots * 6, bitorder="little")
    return np.packbits(bits.reshape(slots, 6), axis=1, bitorder="little")[:, 0].astype(np.int16)


def _read_nibbles(memory: Memory, slots: int) -> Values:
    stored = np.frombuffer(memory.some(40, slots // 2), np.uint8)
    values = np.stack([stored & 15, stored >> 4], axis=1).reshape(slots)
    return values.astype(np.int16)


def _take_large(memory: Memory, registers: Registers) -> SketchError | None:
    """Values of registers of 4 bits: they are above the least one, and where they are 15 in a table
    behind. What is wrong where one is not there."""
    values, slots = registers.values, len(registers.values)
    large = np.flatnonzero(values == 15).tolist()
    values += np.int16(registers.least)
    table = read_large(memory, 40 + slots // 2, registers.lg_slots, slots)
    if table is None:
        call = "org.apache.datasketches.hll.AuxHashMap.mustFindValueFor(int)"
        error = null_pointer(f'Cannot invoke "{call}" because "auxHashMap" is null')
        return error if large else None
    try:
        for slot in large:
            values[slot] = table.get(slot)
    except SketchError as error:
        return error
    return None
