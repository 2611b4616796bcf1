"""Arrays of FLOATs as vectors."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from tests.parity.columns import COLUMNS as ATOMIC
from tests.parity.columns import draw

_LENGTHS = (1, 3, 7, 8, 9, 16, 21)
_, _edges = ATOMIC["f"]


def _vector(rng: random.Random) -> list[Any]:
    length = rng.choice(_LENGTHS)
    if rng.random() < 0.25:
        return [_edges(rng) for _ in range(length)]
    size = 10.0 ** rng.randint(-25, 20)
    return [rng.uniform(-size, size) for _ in range(length)]


_WHOLE = [[], [0.0], [-0.0] * 9, [3.0, 4.0], [1e-30] * 8, [3e38] * 10, [None], [1.0, None, 2.0]]
_VECTOR = (pa.list_(pa.float32()), draw(_WHOLE, _vector))

COLUMNS = {"vec": _VECTOR, "vec2": _VECTOR}
_PAIRS = [
    *("vec, vec", "vec, reverse(vec)", "vec, transform(vec, x -> x * 3f)", "vec, vec2"),
    *(
        "vec2, transform(vec2, (x, k) -> x + float(k))",
        "vec, slice(concat(vec, vec2), 2, size(vec))",
    ),
    "concat(vec, vec2), concat(vec2, vec)",
]
_DEGREES = ["", ", 1f", ", 2f", ", float('inf')"]

TEMPLATES = {
    **{
        f"vector_{name}": [f"vector_{name}({pair})" for pair in _PAIRS]
        for name in ("inner_product", "cosine_similarity", "l2_distance")
    },
    **{
        f"vector_{name}": [f"vector_{name}(vec{degree})" for degree in _DEGREES]
        + [f"vector_{name}(concat(vec, vec2), float(m))"]
        for name in ("norm", "normalize")
    },
}
