"""HLL sketches of Apache DataSketches; their estimates need the package ``datasketches``."""

from __future__ import annotations

import pyarrow as pa

from tests.parity import sketches

_HLL = (pa.binary(), sketches.sketches(sketches.hll, (0, 1, 2)))

COLUMNS = {"hll": _HLL, "hll2": _HLL}

TEMPLATES = {
    "hll_sketch_estimate": [
        "hll_sketch_estimate(hll)",
        "hll_sketch_estimate(bin)",
        "hll_sketch_estimate(hll_union(hll, hll2, true))",
    ],
    "hll_union": [
        "hll_union(hll, hll2)",
        "hll_union(hll, hll2, true)",
        "hll_union(hll, hll2, u)",
        "hll_union(hll_union(hll, hll2, true), hll, true)",
        "hll_union(hll_union(hll, hll, true), hll2, true)",
    ],
}
