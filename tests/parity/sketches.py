"""Generated sketches of Apache DataSketches: whole ones of few values, and damaged ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

from engine.expressions.sketches.kll_sketches import capacity
from tests.parity.columns import Draw

_SEED_HASH: Final = 37836
_MOST: Final = 2**63 - 1
_POOL: Final = [random.Random(f"hash {number}").randint(1, _MOST - 1) for number in range(400)]
"""Few: sketches shall overlap."""


def sketches(whole: Callable[[random.Random], bytes], places: Sequence[int]) -> Draw:
    """What ``whole`` draws; every fifth is damaged, its bytes in these places at most."""

    def sketch(rng: random.Random) -> bytes:
        data = whole(rng)
        return damaged(data, rng, places) if rng.random() < 0.2 else data

    return lambda rng: None if rng.random() < 0.05 else sketch(rng)


def damaged(data: bytes, rng: random.Random, places: Sequence[int]) -> bytes:
    """Cut, or with another byte in one of these places."""
    if rng.random() < 0.5 or len(data) < 8:
        return data[: rng.randint(0, len(data))]
    at = rng.choice(places)
    byte = data[at] ^ (1 << rng.randint(0, 7)) if rng.random() < 0.5 else rng.randint(0, 255)
    return data[:at] + bytes([byte]) + data[at + 1 :]


def theta(rng: random.Random) -> bytes:
    """A theta sketch: compressed, ordered or not, empty, of one hash, of another seed."""
    theta = rng.choice([_MOST, _MOST, 2**62, rng.choice(_POOL)])
    count = rng.choice([0, 1, 2, 3, 7, 8, 9, 40, 200])
    hashes = [value for value in rng.sample(_POOL, count) if value < theta]
    count = len(hashes)
    seed = rng.choice([_SEED_HASH] * 9 + [77])
    kind = rng.random()
    if kind < 0.5 and count > 1:
        return _compressed(theta, sorted(hashes), seed)
    ordered = kind < 0.8
    if theta == _MOST and count == 0:
        return bytes((1, 3, 3, 0, 0, 0x1E, 0, 0))
    flags = 0x1A if ordered else 0x0A
    values = sorted(hashes) if ordered else hashes
    if theta == _MOST and count == 1:
        start = struct.pack("<6BH", 1, 3, 3, 0, 0, 0x3A, seed)
    elif theta == _MOST:
        start = struct.pack("<6BHif", 2, 3, 3, 0, 0, flags, seed, count, 1)
    else:
        start = struct.pack("<6BHifq", 3, 3, 3, 0, 0, flags, seed, count, 1, theta)
    return start + struct.pack(f"<{count}q", *values)


def _compressed(theta: int, hashes: list[int], seed: int) -> bytes:
    differences = [value - before for before, value in zip([0, *hashes], hashes, strict=False)]
    bits = max(differences).bit_length()
    text = "".join(f"{difference:0{bits}b}" for difference in differences)
    text += "0" * (-len(text) % 8)
    start = struct.pack("<6BH", 1 if theta == _MOST else 2, 4, 3, bits, 1, 0x1A, seed)
    bound = b"" if theta == _MOST else struct.pack("<q", theta)
    return start + bound + bytes([len(hashes)]) + int(text, 2).to_bytes(len(text) // 8, "big")


def tuples(form: str, values: Sequence[float]) -> Callable[[random.Random], bytes]:
    """A tuple sketch with summaries of a type of numbers, as :mod:`struct` writes it."""

    def draw(rng: random.Random) -> bytes:
        theta = rng.choice([_MOST, _MOST, 2**62, rng.choice(_POOL)])
        count = rng.choice([0, 1, 2, 3, 9, 40, 60, 200])
        hashes = [value for value in rng.sample(_POOL, count) if value < theta]
        body = b"".join(
            struct.pack(f"<q{form}B", value, rng.choice(values), rng.choice((0, 0, 1, 2, 3)))
            for value in hashes
        )
        if theta == _MOST and not hashes:
            return struct.pack("<6BH", 1, 3, 9, 1, 0, 14, _SEED_HASH)
        longs = 3 if theta < _MOST else 1 if len(hashes) == 1 else 2
        start = struct.pack("<6BH", longs, 3, 9, 1, 0, 10, _SEED_HASH)
        if longs > 1:
            start += struct.pack("<ii", len(hashes), 0)
        return start + (struct.pack("<q", theta) if longs > 2 else b"") + body

    return draw


def hll(rng: random.Random) -> bytes:
    """An HLL sketch: a list or a hash table of coupons, registers of a byte, of 6 or of 4 bits, in
    order or not, with sums or without."""
    lg_slots = rng.choice((4, 5, 8, 8, 9, 12))
    kind = rng.random()
    if kind < 0.25 or (kind < 0.5 and lg_slots < 8):
        coupons = [_coupon(rng) for _ in range(rng.choice((0, 1, 3, 7)))]
        start = bytes((2, 1, 7, lg_slots, 3, 0 if coupons else 4, len(coupons), 8))
        return start + struct.pack("<8I", *coupons, *[0] * (8 - len(coupons)))
    if kind < 0.5:
        coupons = list(dict.fromkeys(_coupon(rng) for _ in range(rng.choice((8, 15, 23)))))
        start = struct.pack("<8Bi", 3, 1, 7, lg_slots, 5, 8, 0, 9, len(coupons))
        return start + struct.pack(f"<{len(coupons)}I", *coupons)
    slots, filled = 1 << lg_slots, rng.choice((0.3, 1, 1))
    values = [rng.choice((1, 1, 2, 3, 5, 9)) if rng.random() < filled else 0 for _ in range(slots)]
    if rng.random() < 0.3:
        values[rng.randrange(slots)] = rng.choice((31, 32, 40, 63))
    sums = [sum(2.0**-v for v in values if (v < 32) == low) for low in (True, False)]
    running, flags = rng.uniform(slots / 2, slots * 5), rng.choice((0, 0, 16, 16 + 32, 32))
    kind, least, above = rng.random(), 0, 0
    if kind < 0.6:
        mode, body = 10, bytes(values)
    elif kind < 0.8:
        mode, body = 6, _sixes(values)
    else:
        least, mode, flags = min(values), 2, flags & 16 | 8
        body, above = _nibbles([value - least for value in values], least)
    start = bytes((10, 1, 7, lg_slots, 0, flags, least, mode))
    return start + struct.pack("<dddii", running, *sums, values.count(least), above) + body


def _coupon(rng: random.Random) -> int:
    return rng.choice((1, 1, 1, 2, 2, 3, 4, 9)) << 26 | rng.randrange(2**26)


def _sixes(values: Sequence[int]) -> bytes:
    whole = sum(value << 6 * place for place, value in enumerate(values))
    return whole.to_bytes(len(values) * 3 // 4 + 1, "little")


def _nibbles(values: Sequence[int], least: int) -> tuple[bytes, int]:
    """Four bits each, and behind them as coupons what is too large; how many these are."""
    few = [min(value, 15) for value in values]
    pairs = bytes(low | high << 4 for low, high in zip(few[::2], few[1::2], strict=True))
    large = [slot | value + least << 26 for slot, value in enumerate(values) if value >= 15]
    return pairs + struct.pack(f"<{len(large)}I", *large), len(large)


def kll(
    form: str, values: Sequence[float], *, few: bool = False
) -> Callable[[random.Random], bytes]:
    """A KLL sketch of a type of numbers, as :mod:`struct` writes it, and of these values: of one
    to four levels, empty, of one value, updatable; with few values if two shall go into one.

    Its least and its largest value need not be among those that it has kept."""

    def draw(rng: random.Random) -> bytes:
        k, kind = 200 if few else rng.choice((8, 20, 200)), rng.random()
        if kind < 0.08:
            return struct.pack("<4BHBB", 2, 1, 15, 1, k, 8, 0)
        if kind < 0.16:
            return struct.pack(f"<4BHBB{form}", 2, 2, 15, 0, k, 8, 0, rng.choice(values))
        count = rng.choice((1, 1, 2, 3, 4))
        most = [capacity(k, 8, count, level) for level in range(count)]
        fill = 0.1 if few else rng.choice((0.1, 0.5, 1))
        sizes = [rng.randint(1, max(1, int(room * fill))) for room in most]
        levels = [[rng.choice(values) for _ in range(size)] for size in sizes]
        flags = rng.choice((0, 2))
        levels = [sorted(each) if level or flags else each for level, each in enumerate(levels)]
        flat = [value for each in levels for value in each]
        n = sum(size << level for level, size in enumerate(sizes))
        free = sum(most) - len(flat)
        starts = [free + sum(sizes[:level]) for level in range(count + 1)]
        kept = count == 1 or rng.random() < 0.5
        ends = [min(flat), max(flat)] if kept else [min(values), max(values)]
        updatable = kind > 0.85
        start = struct.pack("<4BHBB", 5, 3 if updatable else 1, 15, flags, k, 8, 0)
        start += struct.pack("<qHBB", n, rng.choice((k, 8)), count, 0)
        starts, before = (starts, [values[0]] * free) if updatable else (starts[:-1], [])
        body = [*ends, *before, *flat]
        return start + struct.pack(f"<{len(starts)}i{len(body)}{form}", *starts, *body)

    return draw
