"""Sketches of Apache DataSketches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tests.parity import sketches
from tests.parity.columns import Column

_THETA = sketches.sketches(sketches.theta, (1, 2, 5, 6, 7))
_LONGS = [*range(-3, 40), 2**63 - 1, -(2**63)]
_FLOATS = [-0.0, 0.0, 0.5, 1.0, -1.5, 3e38, 1e-40, float("inf"), *map(float, range(2, 30))]
_DOUBLES = [*_FLOATS[:-1], 0.1, 1e300, -1e-300, 12345678.25]


def _kll(form: str, values: Sequence[float]) -> Column:
    return pa.binary(), sketches.sketches(sketches.kll(form, values), (0, 1, 2, 6))


def _tuple(form: str, values: Sequence[float]) -> Column:
    return pa.binary(), sketches.sketches(sketches.tuples(form, values), (1, 2, 3, 6))


_INTS = [*range(-3, 40), 2**31 - 1, -(2**31)]

COLUMNS = {
    "theta": (pa.binary(), _THETA),
    "theta2": (pa.binary(), _THETA),
    "tuple_double": _tuple("d", [*_DOUBLES, float("nan"), float("-inf")]),
    "tuple_double2": _tuple("d", _DOUBLES),
    "tuple_integer": _tuple("i", _INTS),
    "tuple_integer2": _tuple("i", _INTS),
    "kll_bigint": _kll("q", _LONGS),
    "kll_double": _kll("d", _DOUBLES),
    "kll_float": _kll("f", _FLOATS),
}
_KLL_RANKS = ("0.5D", "array(0D, 0.1D, 0.5D, 0.99D, 1D)", "0.25", "CAST(NULL AS DOUBLE)", "1")
_KLL_WRONG = ("1.5D", "CAST('NaN' AS DOUBLE)", "array(0.3D, -1D)", "array()")
_KLL_VALUES = ("3", "array(-2, 0, 5, 100)", "CAST(NULL AS INT)", "5000000000", "array()")
_KLL_FRACTIONS = ("0.5D", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS FLOAT)", "array(0.1F, -0F)")


def _of_kll(of: str) -> dict[str, list[str]]:
    sketch, name = f"kll_{of}", f"kll_sketch_{{}}_{of}".format
    ranks = [*_KLL_RANKS, *_KLL_WRONG]
    values = [*_KLL_VALUES, *(() if of == "bigint" else _KLL_FRACTIONS)]
    return {
        name("get_n"): [f"{name('get_n')}({sketch})", f"{name('get_n')}(theta)"],
        name("get_quantile"): [f"{name('get_quantile')}({sketch}, {rank})" for rank in ranks],
        name("get_rank"): [f"{name('get_rank')}({sketch}, {value})" for value in values],
        name("to_string"): [f"{name('to_string')}({sketch})", f"{name('to_string')}(bin)"],
    }


_TUPLE_MODES = ("sum", "min", "Max", "ALWAYSONE")


def _of_tuples(of: str) -> dict[str, list[str]]:
    one, two, modes = f"tuple_{of}", f"tuple_{of}2", _TUPLE_MODES

    def name(what: str) -> str:
        return f"tuple_{what}_{of}"

    return {
        name("sketch_estimate"): [
            f"{name('sketch_estimate')}({one})",
            f"{name('sketch_estimate')}(theta)",
            f"{name('sketch_estimate')}({name('union')}({one}, {two}, 4))",
        ],
        name("sketch_theta"): [f"{name('sketch_theta')}({one})", f"{name('sketch_theta')}(bin)"],
        name("sketch_summary"): [
            f"{name('sketch_summary')}({one})",
            *(f"{name('sketch_summary')}({one}, '{mode}')" for mode in modes),
        ],
        name("union"): [
            f"{name('union')}({one}, {two})",
            f"{name('union')}({name('union')}({one}, {two}, 4), {two}, 5, 'max')",
            *(f"{name('union')}({one}, {two}, {4 + i}, '{m}')" for i, m in enumerate(modes)),
        ],
        name("union_theta"): [
            f"{name('union_theta')}({one}, theta)",
            *(f"{name('union_theta')}({one}, theta, {4 + i}, '{m}')" for i, m in enumerate(modes)),
        ],
        name("intersection"): [
            f"{name('intersection')}({one}, {two})",
            f"{name('intersection')}({name('union')}({one}, {two}, 5), {two}, 'min')",
            *(f"{name('intersection')}({one}, {two}, '{mode}')" for mode in modes),
        ],
        name("intersection_theta"): [
            f"{name('intersection_theta')}({one}, theta)",
            *(f"{name('intersection_theta')}({one}, theta, '{mode}')" for mode in modes),
        ],
        name("difference"): [
            f"{name('difference')}({one}, {two})",
            f"{name('difference')}({one}, {name('intersection')}({one}, {two}))",
            f"{name('difference')}({name('union')}({one}, {two}, 5), {two})",
        ],
        name("difference_theta"): [
            f"{name('difference_theta')}({one}, theta)",
            f"{name('difference_theta')}({one}, theta_union(theta, theta2, 5))",
        ],
    }


TEMPLATES = {
    **_of_tuples("double"),
    **_of_tuples("integer"),
    **_of_kll("bigint"),
    **_of_kll("double"),
    **_of_kll("float"),
    "theta_sketch_estimate": [
        "theta_sketch_estimate(theta)",
        "theta_sketch_estimate(bin)",
        "theta_sketch_estimate(theta_union(theta, theta2, 4))",
    ],
    "theta_union": [
        "theta_union(theta, theta2)",
        "theta_union(theta, theta2, 5)",
        "theta_union(theta, theta2, n)",
        "theta_union(theta_union(theta, theta2, 4), theta)",
    ],
    "theta_intersection": [
        "theta_intersection(theta, theta2)",
        "theta_intersection(theta, theta_union(theta, theta2))",
        "theta_intersection(theta2, theta_union(theta, theta2, 4))",
    ],
    "theta_difference": [
        "theta_difference(theta, theta2)",
        "theta_difference(theta_union(theta, theta2, 6), theta)",
        "theta_difference(theta, theta_intersection(theta, theta2))",
    ],
}
