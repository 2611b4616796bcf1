"""Functions that take a lambda."""

from __future__ import annotations

from tests.parity import nested

COLUMNS = nested.COLUMNS

_SUM_AND_COUNT = (
    "aggregate(ints, named_struct('sum', 0L, 'no', 0L), (acc, v) -> named_struct("
    "'sum', acc.sum + coalesce(v, 0), 'no', acc.no + 1), acc -> acc.sum / acc.no)"
)

TEMPLATES = {
    "transform": [
        *("transform(ints, v -> v + 1)", "transform(ints, (v, at) -> v * at + few)"),
        *("transform(texts, v -> concat(v, key))", "transform(doubles, v -> v / 2)"),
        "transform(nested, v -> transform(v, w -> w + size(v) + few))",
        *("transform(points, v -> v.x)", "transform(ints, v -> 10 / v)"),
        *("transform(ints, v -> array(v, few))", "transform(days, v -> year(v))"),
        "transform(ints, v -> exists(ints2, w -> w = v))",
        *("transform(ints, v -> if(v > 1, 1 / (v - 2), v))", "transform(moments, v -> hour(v))"),
        *("transform(array(1, 2, 3), v -> v + few)", "transform(wides, v -> v + 1)"),
        "transform(ints, v -> transform(ints2, w -> transform(array(v, w), z -> z + v * w)))",
    ],
    "filter": [
        *("filter(ints, v -> v > 1)", "filter(ints, v -> v > few)", "filter(ints, v -> null)"),
        *("filter(ints, (v, at) -> at % 2 = 0)", "filter(texts, v -> v is null)"),
        *("filter(points, v -> v.x = 2)", "filter(doubles, v -> v >= item)"),
        *("filter(ints, v -> v in (1, few, 3))", "filter(nested, v -> size(v) > 1)"),
        "filter(ints, v -> 6 / v > 2)",
    ],
    "exists": [
        *("exists(ints, v -> v = 3)", "exists(ints, v -> v is null)", "exists(ints, v -> null)"),
        *("exists(ints, v -> 1 / (v - 1) > 0)", "exists(nested, v -> exists(v, w -> w = 1))"),
        *("exists(ints, v -> few > 0)", "exists(texts, v -> v like 'a%')"),
        "exists(doubles, v -> isnan(v))",
    ],
    "forall": [
        *("forall(ints, v -> v > 0)", "forall(ints, v -> v is not null)"),
        *("forall(ints, v -> 1 / (v - 3) > 0)", "forall(nested, v -> forall(v, w -> w = 1))"),
        *("forall(ints, v -> null)", "forall(doubles, v -> v < item)"),
    ],
    "zip_with": [
        *("zip_with(ints, ints2, (v, w) -> v + w)", "zip_with(doubles, ints, (v, w) -> v * w)"),
        "zip_with(ints, texts, (v, w) -> struct(v, w, few))",
        "zip_with(ints, ints2, (v, w) -> coalesce(v, w))",
        "zip_with(texts, points, (v, w) -> concat(v, w.y))",
    ],
    "aggregate": [
        "aggregate(ints, 0, (acc, v) -> acc + v)",
        "aggregate(ints, 0, (acc, v) -> acc + coalesce(v, 0))",
        "aggregate(ints, 0L, (acc, v) -> acc + v * few, acc -> acc * 10)",
        "aggregate(texts, '', (acc, v) -> concat(acc, v), acc -> upper(acc))",
        "aggregate(doubles, 0.0D, (acc, v) -> acc + v)",
        "aggregate(ints, 1, (acc, v) -> int(10 div v))",
        _SUM_AND_COUNT,
        "aggregate(ints, array(0), (acc, v) -> array_append(acc, coalesce(v, 7)))",
        "aggregate(nested, 0, (acc, v) -> acc + aggregate(v, few, (q, w) -> q + w))",
        "aggregate(exacts, cast(0 as decimal(20,2)), (acc, v) -> cast(acc + v as decimal(20,2)))",
        "aggregate(wides, 0L, (acc, v) -> acc ^ v)",
    ],
    "reduce": [
        "reduce(ints, few, (acc, v) -> greatest(acc, v))",
        "reduce(wides, 0L, (acc, v) -> acc + v)",
    ],
    "array_sort": [
        *(f"array_sort({name})" for name in ("ints", "doubles", "texts", "nested", "points")),
        *(f"array_sort({name})" for name in ("exacts", "blobs", "moments", "flags", "floats")),
        "array_sort(ints, (v, w) -> case when v < w then 1 when v > w then -1 else 0 end)",
        "array_sort(ints, (v, w) -> w - v)",
        "array_sort(texts, (v, w) -> length(v) - length(w))",
        "array_sort(filter(texts, v -> v is not null), (v, w) -> length(w) - length(v))",
        "array_sort(points, (v, w) -> coalesce(v.x, 0) - coalesce(w.x, 0) + few - few)",
        "array_sort(array_compact(ints), (v, w) -> int(10 div (v - w)))",
    ],
    "map_filter": [
        *("map_filter(counts, (k, v) -> v > 1)", "map_filter(rates, (k, v) -> v >= item)"),
        "map_filter(counts, (k, v) -> k = key or v is null)",
        *("map_filter(named, (k, v) -> k > few)", "map_filter(lists, (k, v) -> size(v) > 1)"),
    ],
    "map_zip_with": [
        "map_zip_with(counts, counts2, (k, v, w) -> coalesce(v, 0) + w)",
        "map_zip_with(counts, map('a', few), (k, v, w) -> concat(k, ':', v, ':', w))",
        "map_zip_with(counts, lists, (k, v, w) -> array_contains(w, v))",
        "map_zip_with(named, named, (k, v, w) -> v = w)",
    ],
    "transform_keys": [
        "transform_keys(counts, (k, v) -> concat(k, 'x'))",
        *("transform_keys(counts, (k, v) -> v)", "transform_keys(named, (k, v) -> k + 1)"),
        *("transform_keys(named, (k, v) -> v)", "transform_keys(named, (k, v) -> k % 3)"),
    ],
    "transform_values": [
        *("transform_values(counts, (k, v) -> v + few)", "transform_values(rates, (k, v) -> k)"),
        *("transform_values(counts, (k, v) -> 10 / v)", "transform_values(named, (k, v) -> v)"),
        "transform_values(counts, (k, v) -> exists(ints, w -> w = v))",
        "transform_values(lists, (k, v) -> aggregate(v, 0, (acc, w) -> acc + w))",
    ],
}
