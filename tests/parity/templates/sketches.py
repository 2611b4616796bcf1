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


COLUMNS = {
    "theta": (pa.binary(), _THETA),
    "theta2": (pa.binary(), _THETA),
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


TEMPLATES = {
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
