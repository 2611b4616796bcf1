"""Arrays, maps and structs are Spark's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.edges import arrays_of_every_type, collections
from tests.spark.expressions import CONF, assert_parity, compare, configured, read_expressions

pytestmark = pytest.mark.spark

_MAKING = [
    "array(i, j)", "array(i, null)", "array(a, b)", "array(st, st)", "array(1, 2.5, i)",
    "size(array())", "string(array())", "concat(array(), a)", "array(struct(i, j))",
    "array_append(a, i)", "array_append(st, struct(1 as x, 'q' as y))", "array_prepend(s, k)",
    "array_insert(a, i, j)", "array_insert(a, 3, 7)", "array_insert(a, -1, 7)",
    "array_insert(a, -3, i)", "array_insert(a, -7, i)", "array_insert(s, 2, k)",
    "array_insert(a, 2147483647, 1)", "array_append(a, cast(10 div i as int))",
    "array_repeat(i, j)", "array_repeat(a, j)", "array_repeat('x', 2)", "array_repeat(k, i)",
    "size(array_repeat(null, 2))", "array_repeat(i, 2147483647)", "arrays_zip(a, b)",
    "arrays_zip(a, s, d)", "arrays_zip(a)", "arrays_zip(array(1), array('a', 'b'))",
    "concat(a, b)", "concat(a, array(i), b)", "concat(st, st)", "concat(a)", "flatten(n)",
    "flatten(array(a, b))", "flatten(array(st, st))", "flatten(array(n))", "reverse(a)",
    "reverse(st)", "reverse(n)", "array_join(s, k)", "array_join(s, ',')",
    "array_join(s, ',', '?')", "array_join(s, k, k)", "array_join(a, ',')", "array_join(d, '')",
    "array_compact(a)", "array_compact(st)", "split(k, '')",
]  # fmt: skip
_TAKING = [
    "element_at(a, 2)", "element_at(a, i)", "element_at(a, -1)", "element_at(a, 0)",
    "element_at(m, k)", "element_at(m, 'a')", "element_at(md, x)", "try_element_at(a, i)",
    "try_element_at(m, k)", "get(a, i)", "get(s, 1)", "a[0]", "a[i]", "n[0]", "n[0][0]", "m['a']",
    "m[k]", "md[x]", "st.x", "st.y", "st[0].y", "slice(a, 1, 2)", "slice(a, i, j)",
    "slice(a, -2, 2)", "slice(s, 2, 1)", "slice(a, i, 1)", "slice(a, 1, j)", "slice(n, -1, 1)",
    "array_size(a)", "size(a)", "size(m)", "cardinality(s)", "array_max(a)", "array_max(d)",
    "array_min(d)", "array_min(a)", "array_max(s)", "array_min(s)", "array_max(st)",
    "array_min(n)", "array_contains(a, i)", "array_contains(d, x)", "array_contains(s, k)",
    "array_contains(n, b)", "array_contains(a, 3)", "array_contains(a, 10 div i)",
    "array_contains(st, struct(2 as x, 'b' as y))", "array_position(a, i)",
    "array_position(d, x)", "array_position(n, array(1))", "array_remove(a, i)",
    "array_remove(d, x)", "array_remove(n, array(1))", "j + 10 div i",
]  # fmt: skip
_SETS = [
    "array_distinct(a)", "array_distinct(d)", "array_distinct(s)", "array_distinct(n)",
    "array_distinct(st)", "array_except(a, b)", "array_except(d, e)", "array_except(n, array(b))",
    "array_except(d, array(1.5D))", "array_intersect(a, b)", "array_intersect(d, e)",
    "array_intersect(n, array(array(1), b))", "array_union(a, b)", "array_union(d, e)",
    "array_union(e, d)", "array_union(n, array(b, b))", "array_union(st, st)",
    "arrays_overlap(a, b)", "arrays_overlap(d, e)", "arrays_overlap(n, array(b, array(1)))",
    "arrays_overlap(s, array(k))", "array_distinct(array(struct(x as x), struct(-0.0D as x)))",
    "array_distinct(array(array(x), array(0.0D)))", "array_union(array(struct(x)), array())",
    "array_except(array(struct(x as x)), array(struct(7.0D as x)))", "array_union(a, array(1L))",
    "arrays_overlap(array(struct(x as x)), array(struct(0.0D as x)))", "array_distinct(array(a))",
]  # fmt: skip
_SORTING = [
    "sort_array(a)", "sort_array(a, false)", "sort_array(d)", "sort_array(d, false)",
    "sort_array(filter(d, v -> v is not null))", "sort_array(array_compact(d))",
    "sort_array(array_compact(d), false)", "sort_array(array(0.0D, -0.0D, coalesce(x, 1.0D)))",
    "array_max(array_compact(d))", "sort_array(n)", "sort_array(s)", "sort_array(st)",
    "array_sort(a)", "array_sort(d)", "array_sort(s)", "array_sort(n)", "array_sort(st)",
]  # fmt: skip
_COMPARING = [
    "a = b", "a <=> b", "a < b", "a >= b", "a != b", "d = e", "d <=> e", "d < e", "n = array(b)",
    "n <= array(b)", "st[0] = st[1]", "struct(x, a) = struct(x, b)", "struct(x) = struct(0.0D)",
    "struct(i, j) < struct(j, i)", "struct(i) <=> struct(j)", "a in (b, array(5))",
    "a in (array(1, 2, 3), null)", "struct(i, j) in (struct(1, 2), struct(0, 1))",
    "nullif(a, b)", "greatest(a, b)", "least(a, b)", "greatest(n, n)", "least(d, e, d)",
    "greatest(array(i), array(1))", "array(i) in (array(1), array(0))",
    "coalesce(array(i), array(1))", "if(i > 0, array(i), array(1))", "array(i) < array(1)",
    "greatest(struct(i as p, j as q), struct(j as p, i as q))", "if(i > 0, a, b)", "coalesce(a, b)",
    "case when i > 0 then n when j > 0 then array(b) end", "coalesce(m, map('q', 1))",
    "if(i > 0, st, null)", "nvl(st[0], struct(9 as x, 'z' as y))", "if(i > 0, m, map('z', 1))",
    "a is null", "array(1, null) = array(1, null)", "array(1) = array(1L)", "nvl2(m, a, b)",
]  # fmt: skip
_MAPS = [
    "map('a', i, 'b', j)", "map(k, 1, 'a', 2)", "map(i, a, j, b)", "map(i, i)",
    "map(i, 1, i + 0, 2)", "map(a, 1)",
    "map(struct(i, k), s)", "map_concat(m, map('q', 1))",
    "map_concat(m, m)", "map_concat(m)", "map_concat(m, map(k, 3))", "map_contains_key(m, k)",
    "map_contains_key(m, 'a')", "map_contains_key(md, x)", "map_entries(m)",
    "map_from_arrays(s, a)", "map_from_arrays(array('a', k), array(i, j))",
    "map_from_arrays(d, d)", "map_from_arrays(array(x), array(1))",
    "map_from_entries(array(struct(k as p, i as q), struct('b' as p, j as q)))",
    "map_from_entries(array(struct(x as k, 1 as v)))", "map_from_entries(st)",
    "map_from_entries(map_entries(m))", "map_keys(m)", "map_values(m)", "map_keys(md)",
    "str_to_map(k)", "str_to_map('a:1,b:2,c')", "str_to_map(concat('a:', k, ',b:2:3,,c'))",
    "str_to_map('a=1;b=2', ';', '=')", "str_to_map('a1b2', '[0-9]', 'x')",
    "str_to_map('a:1,a:2')", "m['a'] + element_at(m, 'a')", "map_concat(md, md)",
]  # fmt: skip
_CASTS = [
    "cast(a as array<string>)", "cast(s as array<int>)", "cast(a as array<boolean>)",
    "cast(m as map<string,double>)", "cast(st as array<struct<p:string,q:string>>)",
    "cast(a as string)", "cast(d as string)", "cast(st as string)", "cast(m as string)",
    "cast(md as string)", "cast(n as string)", "cast(array() as array<int>)",
    "cast(n as array<array<bigint>>)", "string(array(date'2020-01-01', null))",
    "string(array(timestamp'2020-01-01 00:00:00.5', null))", "string(array(null, null))",
    "string(array(timestamp_ntz'2020-01-01 00:00:00.5', null))", "string(struct(struct(i, k), m))",
    "string(array(cast('abc' as binary), null))", "string(array(cast(1 as decimal(10,2)), null))",
    "string(struct(cast('abc' as binary), true, 1.5f, null, ''))", "try_cast(s as array<int>)",
    "cast(struct(k, i) as struct<a:int,b:string>)", "cast(map('1', k) as map<string,date>)",
    "string(named_struct())",
]  # fmt: skip


@pytest.mark.parametrize(
    "expressions",
    [_MAKING, _TAKING, _SETS, _SORTING, _COMPARING, _MAPS, _CASTS],
    ids=["making", "taking", "sets", "sorting", "comparing", "maps", "casts"],
)
def test_collections(spark: SparkSession, expressions: list[str]) -> None:
    assert_parity(spark, collections(), expressions)


@pytest.mark.parametrize(
    "expression", ["array(1, 2)[i]", "element_at(array(1, 2), i)", "array(struct(1 AS x))[i].x"]
)
def test_an_index_that_spark_takes_for_never_null(spark: SparkSession, expression: str) -> None:
    """Its compiled code takes NULL for -1 there, the interpreted for NULL."""
    table = pa.table({"i": pa.array([0, None], pa.int32())})
    with pytest.raises(AssertionError, match=r"unsupported: .*the index may be NULL"):
        assert_parity(spark, table, [expression], ansi=[True])
    sure = expression.replace("[i]", "[coalesce(i, 1)]").replace("), i)", "), coalesce(i, 1))")
    sure = sure.replace("struct(1 AS x)", "struct(1 AS x), struct(2 AS x)")
    assert_parity(spark, table, [sure], ansi=[True])
    assert_parity(spark, table, [expression], ansi=[False])


_FOR_EVERY_TYPE = [
    "array_distinct({})", "array_max({})", "array_min({})", "sort_array({})", "array_sort({})",
    "sort_array({}, false)", "array_contains({}, {}[0])", "array_union({}, reverse({}))",
    "array_except({}, slice({}, 1, 1))", "{} = reverse({})", "{} < reverse({})",
    "array_position({}, get({}, 1))", "array_remove({}, {}[0])", "string({})",
    "arrays_overlap({}, slice({}, 2, 1))", "flatten(array({}, {}))", "array_insert({}, 2, null)",
    "transform({}, v -> v = {}[0])", "array_repeat({}, 2)", "map(1, {})", "struct({} as f).f",
]  # fmt: skip


def test_arrays_of_every_type(spark: SparkSession) -> None:
    columns = arrays_of_every_type()
    # A subscript that is out of range is another test's matter.
    expressions = [
        text.replace("{}[0]", "get({}, 0)").replace("{}", name)
        for name in columns
        for text in _FOR_EVERY_TYPE
    ]
    assert_parity(spark, pa.table(columns), expressions, ansi=[True], timezone="Europe/Berlin")


_SEQUENCES = [
    "sequence(1, i)", "sequence(i, j)", "sequence(i, j, 2)", "sequence(i, 5, j)",
    "sequence(5, i, -1)", "sequence(tinyint(i), tinyint(120), tinyint(40))",
    "sequence(-9223372036854775808L, 9223372036854775807L - i, 4611686018427387904L)",
    "sequence(9223372036854775807L, i - 3, -4611686018427387904L)",
    "sequence(1L, 9223372036854775807L - i)", "sequence(smallint(i), smallint(j), smallint(0))",
    "sequence(date'2024-01-30', date'2024-03-02')", "sequence(date'2024-03-02', date'2024-02-25')",
    "sequence(date'2024-01-31', date'2024-06-30', interval 1 month)",
    "sequence(date'2024-01-31', date'2023-06-30', interval -1 month)",
    "sequence(date'2024-01-31', date_sub(date'2023-06-30', i), interval 1 year)",
    "sequence(date'2024-01-31', date'2029-06-30', interval 1 year)",
    "sequence(date'2024-01-01', date'2024-02-01', interval 7 days)",
    "sequence(date'2024-01-01', date'2024-01-05', interval 36 hours)",
    "sequence(date'2024-01-01', date'2024-01-05', interval 1 hour)",
    "sequence(date'2024-01-01', date_add(date'2024-01-05', i * 0), interval -1 day)",
    "sequence(date'2024-01-01', date_add(date'2024-01-01', i))",
    "sequence(date'2024-03-29', date'2024-04-02', interval '1 12' day to hour)",
    "sequence(timestamp'2024-03-30 12:00:00', timestamp'2024-04-02 12:00:00')",
    "sequence(timestamp'2024-03-30 02:30:00', timestamp'2024-04-02 12:00:00', interval 1 day)",
    "sequence(timestamp'2024-10-29 02:30:00', timestamp'2024-10-20 12:00:00', interval -1 day)",
    "sequence(timestamp'2024-10-26 02:30:00', timestamp'2024-10-28 12:00:00',"
    " interval '1 01' day to hour)",
    "sequence(timestamp'2024-01-31 02:30:00', timestamp'2024-10-28 12:00:00', interval 1 month)",
    "sequence(timestamp'2024-10-31 02:30:00', timestamp'2023-10-28 12:00:00', interval -5 month)",
    "sequence(timestamp'2024-03-31 00:30:00', timestamp'2024-03-31 05:00:00',"
    " interval 30 minutes)",
    "sequence(timestamp_ntz'2024-03-30 02:30:00', timestamp_ntz'2024-04-02 12:00:00',"
    " interval 1 day)",
    "sequence(timestamp_ntz'2024-03-30 02:30:00', timestamp_ntz'2024-08-02 12:00:00',"
    " interval 1 month)",
    "sequence(timestamp_ntz'2024-03-30 02:30:00', timestamp_ntz'2024-04-01 12:00:00')",
]  # fmt: skip


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_sequences(spark: SparkSession, zone: str) -> None:
    assert_parity(spark, collections(), _SEQUENCES, ansi=[True], timezone=zone)


def test_the_last_of_equal_keys_wins_if_so_configured(spark: SparkSession) -> None:
    expressions = [
        "map('a', i, k, j)", "map_concat(m, map('a', 1, 'zz', i))", "map_from_arrays(d, d)",
        "map_from_arrays(array('a', 'a', k), array(i, j, 3))", "map_concat(md, md)",
        "transform_keys(m, (p, v) -> 'c')", "str_to_map('a:1,b:2,a:3')",
    ]  # fmt: skip
    with configured(spark, {"spark.sql.mapKeyDedupPolicy": "LAST_WIN", **CONF}):
        assert not compare(spark, collections(), expressions)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("map(x, 1)", "floating-point"),
        ("str_to_map(k, k, ':')", "delimiters must be constants"),
        ("coalesce(m, map())", "map without a type of keys"),
    ],
)
def test_what_cannot_be_matched_is_refused(
    spark: SparkSession, expression: str, reason: str
) -> None:
    frame = spark.createDataFrame(collections())
    _, problems = read_expressions(frame, [expression])
    assert any(reason in problem for problem in problems), problems


def test_get_evaluates_the_item_alone(spark: SparkSession) -> None:
    columns = pa.table({"n": pa.array([None, 1], pa.int32()), "s": ["x", "y"]})
    maps = "array(map(1, s), map(n, s))"
    takes = [f"get({maps}, {index})" for index in ("0", "1", "5", "-83", "n")]
    assert_parity(spark, columns, [*takes, f"get({maps}, 0)[1]", "get(array(1, n), 1) + 1"])
