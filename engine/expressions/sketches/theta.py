"""``theta_sketch_estimate``, ``theta_union``, ``theta_intersection``, ``theta_difference``.

A union keeps the smallest hashes, as many as it may; the next one becomes its theta.

Source: ``thetasketchesExpressions.scala``, ``ThetaSketchUtils.scala`` of Spark; ``UnionImpl.java``,
``IntersectionImpl.java``, ``AnotBimpl.java`` of datasketches-java.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.registry import always
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.sketches.memory import (
    Longs,
    Memory,
    SketchError,
    bad_argument,
    bad_state,
    family,
    index_out_of_bounds,
)
from engine.expressions.sketches.theta_bytes import read_theta, write_empty, write_theta
from engine.expressions.sketches.theta_sketches import (
    MOST,
    SEED_HASH,
    AnyThetaSketch,
    ThetaSketch,
)
from engine.expressions.tree import Expr

_LG_ENTRIES: Final = range(4, 27)
NONE: Final = np.zeros(0, np.int64)


@rowwise("ThetaSketchEstimate", can_fail=always)
def theta_sketch_estimate(data: bytes) -> int:
    """``theta_sketch_estimate``: how many hashes there were, about."""
    sketch = theta_argument(data)
    if sketch.single:
        return 1
    count = sketch.count
    return rounded(estimate(sketch.theta, count))


@rowwise_factory("ThetaUnion", can_fail=always, reads=(SPARK_VERSION,))
def theta_union(expr: Expr) -> RowFunction:
    """``theta_union``: hashes that are in any of the two."""
    error = f"{'SKETCH' if is_since(expr, '4.2.0') else 'THETA'}_INVALID_LG_NOM_ENTRIES"

    def unite(left: bytes, right: bytes, lg_entries: int) -> bytes:
        check_lg_entries(lg_entries, error)
        return _united(left, right, lg_entries)

    return unite


def _united(left: bytes, right: bytes, lg_entries: int) -> bytes:
    nominal = 1 << lg_entries
    theta, empty, hashes = MOST, True, NONE
    for sketch in (theta_argument(left), theta_argument(right)):
        if not sketch.empty:
            check_seeds(SEED_HASH, sketch.seed_hash)
            theta, empty = min(theta, sketch.theta, _theta_of(hashes, nominal)), False
            hashes = np.concatenate([hashes, _below(sketch, MOST if sketch.single else theta)])
    held = hashes[hashes < _theta_of(hashes, nominal)] if theta < 0 else NONE
    if (held > theta + MOST).any():  # below it, as Java subtracts
        raise bad_state("Possible Corruption: curCount parameter is incorrect.")
    hashes = np.unique(hashes)
    hashes = hashes[hashes < theta]
    if len(hashes) > nominal:
        theta, hashes = int(hashes[nominal]), hashes[:nominal]
    return write_theta(theta, hashes, empty=empty or _is_nothing(theta, hashes))


@rowwise("ThetaIntersection", can_fail=always)
def theta_intersection(left: bytes, right: bytes) -> bytes:
    """``theta_intersection``: hashes that are in both."""
    theta, kept, count = MOST, NONE, None
    for sketch in (theta_argument(left), theta_argument(right)):
        if sketch.empty:
            return write_theta(MOST, NONE, empty=True)
        check_seeds(SEED_HASH, sketch.seed_hash)
        theta = min(theta, sketch.theta)
        if count == 0 or sketch.count == 0:
            kept, count = NONE, 0
        elif sketch.count > 0:  # else it is as if it were not there
            if count is None:
                kept, count = positive(sketch.hashes, theta), sketch.count
            else:
                kept = _that_are_in(sketch, kept, theta)
                if len(kept) > (most := min(count, sketch.count)):
                    raise index_out_of_bounds(most)
                count = len(kept)
    if count is None:
        raise bad_state(
            "Calling getResult() with no intervening intersections would represent the infinite"
            " set, which is not a legal result."
        )
    kept = positive(kept, theta)
    kept = np.append(kept, np.zeros(count - len(kept), np.int64))
    return write_theta(theta, np.sort(kept), empty=_is_nothing(theta, kept))


@rowwise("ThetaDifference", can_fail=always)
def theta_difference(left: bytes, right: bytes) -> bytes:
    """``theta_difference``: hashes of the first that are not in the second."""
    first, second = theta_argument(left), theta_argument(right)
    theta = min(first.theta, second.theta)
    if first.empty:
        if isinstance(first, ThetaSketch):
            return write_empty(first.seed_hash, bounded=first.bounded)
        return write_theta(MOST, first.compact(), empty=False, seed_hash=first.seed_hash)
    check_seeds(first.seed_hash, SEED_HASH)
    if second.empty:
        return write_theta(first.theta, first.compact(), empty=False)
    check_seeds(second.seed_hash, SEED_HASH)
    hashes, others = first.compact(), checked(second.hashes, theta)
    hashes = hashes[(hashes != 0) & (hashes < theta) & ~np.isin(hashes, others)]
    return write_theta(theta, np.sort(hashes), empty=_is_nothing(theta, hashes))


def theta_argument(data: bytes) -> AnyThetaSketch:
    """The sketch that an argument is.

    :raises TransformError: it is none, or of another family.
    """
    try:
        name = family(Memory(data).unsigned(2))
    except SketchError as error:
        raise _invalid(error.text) from error
    if name != "COMPACT":
        raise failure(
            "THETA_INVALID_INPUT_SKETCH_BUFFER_FAMILY",
            f"A theta sketch is expected, and this is of the family {name}.",
        )
    try:
        return read_theta(data)
    except SketchError as error:
        if error.name in ("SketchesArgumentException", "MemoryBoundsException"):
            raise _invalid(error.text) from error
        raise


def check_lg_entries(lg_entries: int, error: str = "SKETCH_INVALID_LG_NOM_ENTRIES") -> None:
    """How many hashes a union may have, as a power of two.

    :param error: its name.
    """
    if lg_entries not in _LG_ENTRIES:
        raise failure(
            error,
            f"lgNomEntries is {lg_entries}, and must be {_LG_ENTRIES[0]} to {_LG_ENTRIES[-1]}.",
        )


def check_seeds(first: int, second: int) -> None:
    """Hashes of different seeds have nothing to do with each other."""
    if first != second:
        raise bad_argument(f"Incompatible Seed Hashes. {first:x}, {second:x}")


def estimate(theta: int, count: int) -> float:
    """How many there were of which ``count`` have hashes below theta, as Java divides."""
    if theta == 0:
        return count * np.inf
    return count * (float(MOST) / float(theta))


def rounded(number: float) -> int:
    """As Java's ``Math.round``."""
    if number != number:
        return 0
    if not -(2.0**63) <= number < 2.0**63:
        return -(2**63) if number < 0 else MOST
    whole = int(number // 1)
    return whole + (number - whole >= 0.5)


def _below(sketch: AnyThetaSketch, theta: int) -> Longs:
    """The hashes up to the first that is not below theta, if they are ordered; else all of them
    that are. They are read one after the other, and no further."""
    if not sketch.ordered:
        return positive(sketch.hashes, theta)
    hashes = sketch.up_to(theta)
    return hashes[hashes > 0]


def _that_are_in(sketch: AnyThetaSketch, hashes: Longs, theta: int) -> Longs:
    """The hashes of a sketch below theta that are among these; those up to the first that is not
    below it, if they are ordered."""
    found = sketch.hashes
    if sketch.ordered:
        found = found[: int(np.argmax(np.append(found >= theta, True)))]
        if not found.all():
            raise no_hash()
    found = positive(found, theta)
    return found[np.isin(found, hashes)]


def no_hash() -> TransformError:
    """0 is sought."""
    return bad_argument("Given hash must not be zero: 0")


def checked(hashes: Longs, theta: int) -> Longs:
    """The hashes of a sketch that are taken away from those of another.

    :raises TransformError: theta or one of them cannot be right.
    """
    if theta <= 0:
        raise bad_state(f"Data Corruption: thetaLong was negative or zero: ThetaLong: {theta}")
    if len(negative := hashes[hashes < 0]):
        raise bad_argument(f"Data Corruption: hash was negative: Hash: {negative[0]}")
    return hashes


def _theta_of(hashes: Longs, nominal: int) -> int:
    """Theta of a table that these have been put into: whenever 15 of 16 places are taken, half of
    them are emptied, of those with the largest hashes."""
    most, theta, kept = nominal * 15 // 8, MOST, set[int]()
    if len(hashes) <= most:
        return theta
    for value in hashes.tolist():
        if value < theta:
            kept.add(value)
            if len(kept) > most:
                *smallest, theta = sorted(kept)[: nominal + 1]
                kept = set(smallest)
    return theta


def positive(hashes: Longs, theta: int) -> Longs:
    """The hashes below theta; what is not above 0 is none."""
    return hashes[(hashes > 0) & (hashes < theta)]


def _is_nothing(theta: int, hashes: Longs) -> bool:
    return theta == MOST and not len(hashes)


def _invalid(why: str) -> TransformError:
    return failure("THETA_INVALID_INPUT_SKETCH_BUFFER", f"This is no theta sketch: {why}")
