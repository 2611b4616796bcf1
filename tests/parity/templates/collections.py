"""Arrays, maps, structs."""

from __future__ import annotations

from tests.parity import nested

COLUMNS = nested.COLUMNS

_ARRAYS = ["ints", "wides", "doubles", "floats", "exacts", "flags", "texts", "blobs", "days"]
_ARRAYS += ["moments", "nested", "points"]
_PAIRS = [("ints", "ints2"), ("doubles", "doubles2"), ("texts", "texts2")]
_TWICE = [(name, f"reverse({name})") for name in ("wides", "flags", "nested", "points", "days")]
_MAPS = ["counts", "rates", "named", "lists"]


def _of_each(name: str, columns: list[str], more: str = "") -> list[str]:
    return [f"{name}({column}{more})" for column in columns]


def _of_two(name: str) -> list[str]:
    return [f"{name}({a}, {b})" for a, b in [*_PAIRS, *_TWICE, ("ints", "wides")]]


TEMPLATES = {
    "array": [
        *("array(i, i2)", "array(d, d2, 1)", "array(s, null, s2)", "array(ints, ints2)"),
        *("array(dec, i)", "array(records.at, null)", "array(i, 10 div few)", "size(array())"),
    ],
    "array_append": [
        *("array_append(ints, i)", "array_append(doubles, d)", "array_append(texts, s)"),
        *("array_append(nested, ints)", "array_append(points, struct(few as x, key as y))"),
        "array_append(ints, int(10 div few))",
    ],
    "array_prepend": [
        *("array_prepend(ints, i)", "array_prepend(texts, null)", "array_prepend(nested, ints)"),
        "array_prepend(doubles, item)",
    ],
    "array_insert": [
        *("array_insert(ints, few, i)", "array_insert(texts, 2, s)", "array_insert(ints, -2, 7)"),
        *("array_insert(doubles, -3, item)", "array_insert(nested, 1, ints)"),
        *("array_insert(ints, n, 7)", "array_insert(texts, n, null)"),
    ],
    "array_repeat": [
        *("array_repeat(s, n)", "array_repeat(ints, 2)", "array_repeat(d, m)"),
        *("array_repeat(records, few)", "array_repeat('x', 3)", "size(array_repeat(null, m))"),
    ],
    "array_compact": _of_each("array_compact", _ARRAYS),
    "array_distinct": _of_each("array_distinct", _ARRAYS),
    "array_union": _of_two("array_union"),
    "array_intersect": _of_two("array_intersect"),
    "array_except": _of_two("array_except"),
    "arrays_overlap": _of_two("arrays_overlap"),
    "arrays_zip": [
        *("arrays_zip(ints, texts)", "arrays_zip(ints, ints2, doubles)", "arrays_zip(nested)"),
        "arrays_zip(ints, array('a', 'b'))",
    ],
    "array_contains": [
        *("array_contains(ints, few)", "array_contains(doubles, item)"),
        *("array_contains(texts, key)", "array_contains(nested, ints)", "array_contains(wides, i)"),
        *("array_contains(points, records.at)", "array_contains(ints, 3)"),
        "array_contains(ints, 10 div few)",
        "array_contains(array(raw, s), raw)",
    ],
    "array_position": [
        *("array_position(ints, few)", "array_position(doubles, item)"),
        *("array_position(texts, key)", "array_position(nested, array(1))"),
        "array_position(points, records.at)",
    ],
    "array_remove": [
        *("array_remove(ints, few)", "array_remove(doubles, item)", "array_remove(texts, key)"),
        *("array_remove(nested, array(1))", "array_remove(wides, 1L)"),
    ],
    "array_max": _of_each("array_max", _ARRAYS),
    "array_min": _of_each("array_min", _ARRAYS),
    "array_size": _of_each("array_size", _ARRAYS),
    "array_join": [
        *("array_join(texts, ',')", "array_join(texts, key)", "array_join(texts, ',', '?')"),
        *("array_join(texts, key, s)", "array_join(ints, '')", "array_join(flags, '-', 'no')"),
        "array_join(array(raw, s, raw), ',')",
    ],
    "sort_array": [
        *_of_each("sort_array", _ARRAYS),
        *_of_each("sort_array", _ARRAYS, ", false"),
        *("sort_array(array_compact(doubles))", "sort_array(array_compact(doubles), false)"),
        *("sort_array(array(d, d2, 0.0D, -0.0D))", "sort_array(map_entries(named))"),
        "sort_array(array(raw, s, raw))",
    ],
    "slice": [
        *("slice(ints, few, 2)", "slice(texts, 1, few)", "slice(doubles, n, m)"),
        *("slice(nested, -2, 2)", "slice(points, 2, 1)", "slice(ints, few, i)"),
    ],
    "flatten": ["flatten(nested)", "flatten(array(ints, ints2))", "flatten(array(points))"],
    "get": ["get(ints, few)", "get(texts, n)", "get(nested, 0)", "get(points, m).y"],
    "element_at": [
        *("element_at(ints, few)", "element_at(texts, -1)", "element_at(nested, 1)"),
        *("element_at(counts, key)", "element_at(named, few)", "element_at(lists, 'a')"),
        # Not the least INT: there Spark reads memory that is none of the array, and may crash.
        "element_at(doubles, greatest(i, -2147483647))",
    ],
    "try_element_at": [
        *("try_element_at(ints, few)", "try_element_at(texts, n)", "try_element_at(counts, key)"),
        "try_element_at(points, -2)",
    ],
    "[]": [
        *("ints[few]", "texts[0]", "nested[0][m]", "counts[key]", "named[few]", "lists['a'][0]"),
        *("doubles[n]", "rates['']"),
    ],
    ".": [
        *("records.no", "records.name", "records.at.y", "points.x", "points.y", "records.tags[0]"),
        "points[m].x",
    ],
    "struct": [
        *("struct(i, s, ints)", "struct(records.no as no, counts)", "struct(null as z, d)"),
        "struct(struct(i), points)",
    ],
    "size": _of_each("size", [*_ARRAYS, *_MAPS]),
    "cardinality": _of_each("cardinality", ["ints", "nested", "counts"]),
    "sequence": [
        *("sequence(few, m)", "sequence(few, n, m)", "sequence(m, few, -2)", "sequence(n, m, few)"),
        *("sequence(l, l + 3, 2L)", "sequence(b, 127Y, 25Y)", "sequence(-30000S, h, 9999S)"),
        "sequence(dt, date_add(dt, n))",
        "sequence(dt, dt + interval 5 months, interval 1 month)",
        "sequence(dt, dt2, interval 40 years)",
        "sequence(dt, date_sub(dt, 20), interval -1 week)",
        "sequence(dt, date_add(dt, 3), interval 30 hours)",
        "sequence(ts, ts + interval 3 days)",
        "sequence(ts, ts + interval 3 days, interval 1 day)",
        "sequence(ts, ts - interval 3 days, interval -1 day)",
        "sequence(ts, ts + interval 30 hours, interval 6 hours)",
        "sequence(ts, ts + interval 5 months, interval 1 month)",
        "sequence(ts, ts - interval 9 months, interval -2 months)",
        "sequence(ntz, ntz + interval 3 days, interval 1 day)",
        "sequence(ntz, ntz + interval 5 months, interval 1 month)",
    ],
    "map": [
        *("map('a', i, 'b', i2)", "map(key, few, 'a', 2)", "map(i, s, i2, s2)", "map(s, d)"),
        *("map(ints, 1)", "map(struct(few, key), texts)", "map(dt, ints, dt2, ints2)"),
        "map(raw, i)",
    ],
    "map_concat": [
        *("map_concat(counts, map('new', few))", "map_concat(counts, counts2)"),
        *("map_concat(named)", "map_concat(lists, map('q', ints))"),
    ],
    "map_contains_key": [
        *("map_contains_key(counts, key)", "map_contains_key(named, few)"),
        *("map_contains_key(lists, 'a')", "map_contains_key(rates, s)"),
    ],
    "map_entries": _of_each("map_entries", _MAPS),
    "map_keys": _of_each("map_keys", _MAPS),
    "map_values": _of_each("map_values", _MAPS),
    "map_from_arrays": [
        *("map_from_arrays(array('a', key), array(i, i2))", "map_from_arrays(texts, ints)"),
        "map_from_arrays(array_distinct(ints), array_distinct(ints))",
        "map_from_arrays(array('x', key), slice(texts, 1, 2))",
        "map_from_arrays(map_keys(rates), map_values(rates))",
        "map_from_arrays(array_compact(doubles), array_compact(doubles))",
    ],
    "map_from_entries": [
        *("map_from_entries(map_entries(counts))", "map_from_entries(points)"),
        "map_from_entries(array(struct(few as a, s as b), struct(9 as a, s2 as b)))",
        "map_from_entries(array(struct(item as a, i as b)))",
    ],
    "str_to_map": [
        "str_to_map(concat(key, ':', i))",
        *("str_to_map(s)", "str_to_map(concat('a:', s, ',b:2:3,,c'))", "str_to_map(s, ',', '=')"),
        *("str_to_map(concat(key, '1', s), '[0-9]', ' ')", "str_to_map('a:1,b:2')"),
        "str_to_map(raw, '&', '=')",
    ],
}  # fmt: skip
