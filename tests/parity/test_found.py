"""What the oracle has found, one row each."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.decimals import EXACT
from tests.spark.expressions import assert_parity, frame_of, read_expressions

pytestmark = pytest.mark.spark


def test_all_parts_null(spark: SparkSession) -> None:
    table = pa.table({"s": ["a", None], "t": pa.array([None, None], pa.string())})
    assert_parity(spark, table, ["concat_ws(',', s, t)"])


def test_arguments_behind_a_null_are_not_evaluated(spark: SparkSession) -> None:
    table = pa.table({"i": pa.array([None, 1], pa.int32()), "z": pa.array([0, 0], pa.int32())})
    assert_parity(spark, table, ["i + 1 % z", "i / (1 % z)", "(1 % z) / i", "assert_true(i > z)"])


def test_each_part_of_an_interval_has_to_fit(spark: SparkSession) -> None:
    table = pa.table(
        {
            "days": pa.array([120_860_035, 1, 106_751_991], pa.int32()),
            "hours": pa.array([-427_414_155, 2, 4], pa.int32()),
        }
    )
    assert_parity(spark, table, ["make_dt_interval(days, hours, 26, 1.5)"])


def test_the_years_of_an_interval_have_to_fit_alone(spark: SparkSession) -> None:
    years = [-244_698_737, 178_956_971, 178_956_970, None]
    months = [2_000_000_000, -13, 7, 1]
    table = pa.table({"y": pa.array(years, pa.int32()), "m": pa.array(months, pa.int32())})
    assert_parity(spark, table, ["extract(MONTH FROM make_ym_interval(y, m))"])


def test_zones_that_there_are_not(spark: SparkSession) -> None:
    table = pa.table({"z": ["none", "Europe/Berlin", None], "d": pa.array([1, 2, 3], pa.int32())})
    makers = ("make_timestamp", "make_timestamp_ltz", "try_make_timestamp")
    assert_parity(spark, table, [f"{maker}(2024, 2, d, 0, 0, 0, z)" for maker in makers])


def test_a_constant_that_is_no_zone_is_asked_for_rows_alone(spark: SparkSession) -> None:
    """A text that only the day decides is no constant to the planner."""
    zone = "date_format(CAST('T10:20' AS TIMESTAMP), 'mm:ss')"
    table = pa.table({"t": pa.array([None, datetime(2024, 1, 1)], pa.timestamp("us"))})
    makers = [f"convert_timezone({zone}, 'UTC', t)", f"convert_timezone('UTC', {zone}, t)"]
    assert_parity(spark, table.slice(0, 1), makers)
    assert_parity(spark, table, makers)


def test_negating_rounds_to_34_digits(spark: SparkSession) -> None:
    numbers = [
        "1234567890123456789012345678.1234567890",
        "-9999999999999999999999999999.9999999999",
    ]
    table = pa.table({"a": pa.array(list(map(Decimal, numbers)), pa.decimal128(38, 10))})
    assert_parity(spark, table, ["-a", "abs(a)"])


def test_constants_of_what_stands_for_others(spark: SparkSession) -> None:
    """What stands beside a NULL is not evaluated; ``nullif`` and ``BETWEEN`` stand for others."""
    table = pa.table({"i": pa.array([3, 4], pa.int32()), "z": pa.array([0, 0], pa.int32())})
    expressions = [
        "(1 div z) + nullif(2, 2)",
        "(1 div z) + nullif(nullif(length(upper('a')), 2), 1)",
        "(1 div z) > 1 AND length('abc') BETWEEN length('abcd') AND 5",
        "if(rand(1) BETWEEN 2 AND 5, 1 div z, 2)",
        "(1 div z) + nullif(1 div 0, 2)",
        "(1 div z) + nullif(2, i)",
    ]
    assert_parity(spark, table, expressions)


def test_quotients_are_rounded_once(spark: SparkSession) -> None:
    """This one has 38 places, behind which is 0.4711."""
    left = pa.array([Decimal("0.977056002519394066")], pa.decimal128(18, 18))
    assert_parity(spark, pa.table({"a": left, "b": pa.array([319_608], pa.int64())}), ["a / b"])


def test_what_locate_does_not_look_at(spark: SparkSession) -> None:
    """Its start comes first, then what it looks for."""
    texts = {"s": ["abc", "abc", None, "abc"], "p": [None, "b", "b", "b"]}
    table = pa.table({**texts, "n": pa.array([1, None, 1, 0], pa.int32()), "z": [0, 0, 0, 1]})
    raising = "string(1 div z)"
    expressions = [f"locate(p, {raising}, n)", f"locate({raising}, s, n)", f"locate(p, {raising})"]
    assert_parity(spark, table, [*expressions, "locate(p, s, int(1 div z))"])


def test_quotients_of_more_digits_than_java_is_asked_for(spark: SparkSession) -> None:
    """Those that end with zeros are right."""
    left = pa.array([-7173040242987886787, 30, 9 * 10**17, -381876, 7, 1, None], pa.int64())
    places = ["-3E-38", "3E-38", "9E-38", "4.8428E-34", "3E-38", "0", "1E-38"]
    right = pa.array(
        [Decimal(each).quantize(Decimal("1E-38")) for each in places], pa.decimal128(38, 38)
    )
    whole = ["l % r", "pmod(l, r)", "l div r", "mod(l, r)", "try_mod(l, r)"]
    assert_parity(spark, pa.table({"l": left, "r": right}), whole)


def test_decimals_that_are_all_fraction_are_cut(spark: SparkSession) -> None:
    table = pa.table({"a": pa.array([Decimal("-0.00288"), None], pa.decimal128(5, 5))})
    assert_parity(
        spark, table, ["CAST(a AS SMALLINT)", "TRY_CAST(a AS BIGINT)", "CAST(.5BD AS INT)"]
    )


def test_what_is_not_evaluated_does_not_fail(spark: SparkSession) -> None:
    moments = pa.array([None, 0], pa.timestamp("us", "UTC"))
    numbers = {"n": pa.array([None, 1], pa.int32()), "k": pa.array([0, 0], pa.int32())}
    table = pa.table({**numbers, "ts": moments, "s": ["Mars", "UTC"]})
    assert_parity(
        spark, table,
        [
            "make_timestamp(2024, 2, n, 0, 0, array(1, 2)[coalesce(k, 0) + 11])",
            "make_timestamp_ltz(2024, 2, n, 0, 0, array(1, 2)[coalesce(k, 0) + 11])",
            "try_make_timestamp(2024, 2, n, 0, 0, array(1, 2)[coalesce(k, 0) + 11])",
            "typeof(map(n, 1))",
            "typeof(array(1)[7])",
            "from_utc_timestamp(ts, s)",
        ],
    )  # fmt: skip


def test_intervals_of_months_are_compared(spark: SparkSession) -> None:
    table = pa.table({"n": pa.array([None, 0, 1, 2], pa.int32())})
    months = "(INTERVAL '1' MONTH * n)"
    comparisons = ("<", "<=", "=", ">=", ">")
    assert_parity(spark, table, [f"{months} {each} INTERVAL 1 MONTH" for each in comparisons])


def test_trimming_evaluates_no_characters_behind_a_null(spark: SparkSession) -> None:
    table = pa.table({"s": [None, "xax"], "z": pa.array([0, 1], pa.int32())})
    raising = "IF(1 div z > 0, 'x', 'y')"
    expressions = [f"btrim(s, {raising})", f"ltrim({raising}, s)", f"rtrim({raising}, s)"]
    assert_parity(spark, table, [*expressions, f"trim({raising} FROM s)"])


def test_get_of_null_evaluates_nothing(spark: SparkSession) -> None:
    table = pa.table({"i": pa.array([2**31 - 1], pa.int32())})
    expressions = ["get(array(1, i + i), NULL)", "get(array(1, i + i), CAST(NULL AS INT))"]
    assert_parity(spark, table, [*expressions, "get(CAST(NULL AS ARRAY<INT>), i + i)"])


def test_intervals_of_more_days_than_timestamps_are_apart(spark: SparkSession) -> None:
    """Also where one part alone leads away from all timestamps, and another one back."""
    table = pa.table({"ntz": pa.array([0], pa.timestamp("us"))})
    parts = ["0, -7, 0, 2147483647", "0, 0, 0, -2147483648", "300000, 0, 0, -109572750"]
    parts += ["0, -2147483648", "0, 0, 0, 0, -2147483648, -2147483648"]
    expressions = [f"ntz {sign} make_interval({each})" for each in parts for sign in "+-"]
    assert_parity(spark, table, expressions)


_MODES = ["83C4FC4E", "83C4FC4D", "83C4FC42", "83C4FC41"]
"""Registers and hash tables; with and without a type that there is not."""


def test_preambles_that_an_error_cannot_quote(spark: SparkSession) -> None:
    """The library's message has all of it, also what is not there."""
    preambles = ["010303000000CC86", "010303000000CC85" + "00" * 3, "01030300000000CC84"]
    preambles += ["0103FF000000CC86", "010303000000CC86" + "00" * 28]
    preambles += [first + last + "00" * 19 for first in ("80140722", "03140722") for last in _MODES]
    table = pa.table({"sketch": [bytes.fromhex(each) for each in preambles]})
    assert_parity(spark, table, ["hll_sketch_estimate(sketch)", "hll_union(sketch, sketch)"])


def test_checked_casts_of_long_decimals_go_by_way_of_a_double(spark: SparkSession) -> None:
    """But those to BIGINT."""
    texts = ["0.9999999999999999999", "-0.9999999999999999999", "0.99", None]
    shorts = ["127.9999999999999999999", "-128.9999999999999999999", "2147483647.99", "-1.5", "0.0"]
    given = [None if each is None else Decimal(each) for each in [*texts, *shorts]]
    table = pa.table({"a": pa.array(given, pa.decimal128(38, 19))})
    kinds = ["tinyint", "smallint", "int", "bigint"]
    casts = [f"{how}(a AS {kind})" for how in ("cast", "try_cast") for kind in kinds]
    assert_parity(spark, table, casts)


def test_references_to_groups_that_a_pattern_does_not_have(spark: SparkSession) -> None:
    patterns = ["a\\1", "\\2?(a)", "a\\1|b", "(?:\\3|a)(b)"]
    table = pa.table({"s": ["aab", "xaba", None, ""] * 4, "p": sorted(patterns * 4)})
    assert_parity(spark, table, ["s RLIKE p", "regexp_extract(s, p, 0)", "regexp_count(s, p)"])


def test_divisions_that_arrow_gets_wrong(spark: SparkSession) -> None:
    """Of their quotients a digit, of 32 bits, is the largest one."""
    digits, divisor = 0xFFFFFFFF << 32, 0xB1A2BC2EC5000000
    places = [(digits + each) * 10**17 + 10**16 * 7 for each in range(0, 1 << 32, 10**8)]
    cut = [Decimal(each).scaleb(-17, EXACT) for each in places]
    left = [(digits + each) * divisor // 10**21 + 1 for each in range(0, 1 << 32, 10**8)]
    table = pa.table(
        {
            "cut": pa.array(cut, pa.decimal128(38, 17)),
            "left": pa.array(list(map(Decimal, left)), pa.decimal128(38, 0)),
            "right": pa.array([Decimal(divisor)] * len(left), pa.decimal128(20, 0)),
        }
    )
    casts = ["CAST(cut AS DECIMAL(38,0))", "CAST(-cut AS DECIMAL(22,1))", "round(cut, 2)"]
    assert_parity(spark, table, [*casts, "left / right", "-left / right", "left / -right"])


def test_delimiters_counted_from_an_end_that_java_cannot_reach(spark: SparkSession) -> None:
    texts = {"s": ["a,b,c", "", ",", "abc", None], "c": [",", ",", "", "abcd", ","]}
    table = pa.table({**texts, "n": pa.array([-(2**31)] * 4 + [1], pa.int32())})
    expressions = ["substring_index(s, c, n)", "substring_index(s, ',', -2147483648)"]
    assert_parity(spark, table, [*expressions, "if(n > 0, substring_index(s, c, n), 'x')"])


def test_parts_of_binaries_are_counted_in_32_bits(spark: SparkSession) -> None:
    positions = [-(2**31), -(2**31) + 1, -3, -1, 0, 2, 2**31 - 1]
    lengths = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]
    pairs = [(position, length) for position in positions for length in lengths]
    table = pa.table(
        {
            "b": pa.array([b"abc"] * len(pairs), pa.binary()),
            "s": ["abc"] * len(pairs),
            "i": pa.array([position for position, _ in pairs], pa.int32()),
            "n": pa.array([length for _, length in pairs], pa.int32()),
        }
    )
    expressions = [f"{f}({c}, i, n)" for f in ("substring", "substr") for c in "bs"]
    more = ["substring(b, i)", "left(b, n)", "overlay(b PLACING b FROM i)"]
    assert_parity(spark, table, [*expressions, *more])


def test_seconds_of_too_many_digits_overflow_first(spark: SparkSession) -> None:
    given = ["621670475471946000.0123456", "9999999999999.1234567", "-9999999999999.0", "1E12"]
    numbers = [Decimal(each).quantize(Decimal("1E-7")) for each in given]
    table = pa.table({"a": pa.array(numbers, pa.decimal128(38, 7))})
    assert_parity(spark, table, ["timestamp_seconds(a)"])


def test_calls_with_a_null_that_the_optimizer_takes_away(spark: SparkSession) -> None:
    table = pa.table({"b": [b"abc"], "s": ["a"]})
    raising = "aes_decrypt(b, b)"
    expressions = [f"aes_encrypt({raising}, b, CAST(NULL AS STRING))"]
    expressions += [f"nvl({expressions[0]}, b)", f"base64(aes_encrypt({raising}, NULL))"]
    assert_parity(spark, table, expressions)


def test_constants_of_functions_that_stand_for_others(spark: SparkSession) -> None:
    table = pa.table({"i": pa.array([1], pa.int32())})
    indexes = ["try_subtract(9, 1)", "nvl(NULL, 8)", "try_add(2147483647, 1)"]
    expressions = [f"array(i, i)[{index}]" for index in indexes]
    assert_parity(spark, table, expressions)


def test_days_that_are_none_yet_are_no_constants(spark: SparkSession) -> None:
    table = pa.table({"i": pa.array([1], pa.int32())})
    days = "datediff(to_date('TOMORROW'), CAST('yesterday Europe/Berlin' AS DATE))"
    assert_parity(spark, table, [f"{days} - {days}", f"array(i, i, i, i)[{days} - {days}]"])


def test_arguments_of_what_spark_does_not_compile(spark: SparkSession) -> None:
    """It interprets all that is below, and evaluates arguments behind a NULL there."""
    table = pa.table({"i": pa.array([2**31 - 1], pa.int32()), "n": [True], "s": ["a"]})
    concat = "concat(IF(n, NULL, s), string(i + i))"
    arrays = "arrays_zip(IF(n, NULL, array(s)), array(i + i))"
    maps = "map_concat(IF(n, NULL, map(s, i)), map(s, i + i))"
    expressions = [concat, arrays, maps, f"transform(array(1), v -> {concat})"]
    expressions += [f"transform({arrays}, v -> 1)", f"map_filter({maps}, (k, v) -> true)"]
    assert_parity(
        spark, table, [*expressions, f"upper({concat})", f"array_compact(array({concat}))"]
    )


def test_a_limit_that_is_null_where_spark_does_not_compile_it(spark: SparkSession) -> None:
    """It is 0 there, for whom it is compared."""
    texts = {"s": ["abcd", "ab", None, "", "ab"], "t": ["ab", "ab", "a", "abc", None]}
    table = pa.table({**texts, "y": pa.array([None, None, None, 5, None], pa.int32())})
    distance = "levenshtein(s, t, y)"
    expressions = [distance, f"get(filter(array({distance}), v -> v is not null), 0)"]
    expressions += ["transform(array(1), v -> levenshtein(s, string(v), y))[0]"]
    assert_parity(spark, table, expressions)


def test_constants_of_a_moment_that_is_the_same_on_any_day(spark: SparkSession) -> None:
    """To Spark's optimizer they are constants as others: what they make NULL is not evaluated."""
    table = pa.table({"i": pa.array([2**31 - 1, 1], pa.int32())})
    raising = "string(i + i)"
    moments = ["'epoch UTC'", "'2024-02-29'", "'2024-02-29 10:00'", "'2024'", "NULL"]
    variants = [f"CAST(CAST({each} AS TIMESTAMP) AS VARIANT)" for each in moments]
    expressions = [f"instr({raising}, string(TRY_CAST({each} AS BINARY)))" for each in variants]
    texts = ["'2024-02-29'", "'epoch'", "'2024-2-29 1:2'"]
    expressions += [
        f"IF(CAST({each} AS TIMESTAMP) < TIMESTAMP'1969-01-01', i + i, i)" for each in texts
    ]
    assert_parity(spark, table, expressions)


def test_reversed_marks_within_texts_of_two_bytes(spark: SparkSession) -> None:
    octets = ["0061FFFE", "6100FEFF", "FEFFFFFE", "FFFEFEFF", "FFFE", "00610062FFFE0063"]
    table = pa.table({"b": [bytes.fromhex(each) for each in octets]})
    assert_parity(spark, table, [f"decode(b, 'utf-16{end}')" for end in ("", "le", "be")])


def test_times_of_no_hour(spark: SparkSession) -> None:
    texts = ["T", " T", "T:", "T:05", "-T", "1T", "T1", "1T2", "12T3", "T+1", ":05", "TZ", "T UTC"]
    expressions = ["CAST(s AS TIMESTAMP)", "to_timestamp(s)", "CAST(s AS TIMESTAMP_NTZ)"]
    assert_parity(spark, pa.table({"s": texts}), expressions)


def test_letters_are_masked_by_their_category(spark: SparkSession) -> None:
    """Not as is told whether they are of a case."""
    octets = [each.encode() for each in ("aB1-", "\u1d2d", "\u2160\u24b6\u00aa\u01c5\u0661\u00b2")]
    table = pa.table({"b": [*octets, b"aB\xff1", b"\xe2\x28", "\U00010400".encode()]})
    text = "CAST(b AS STRING)"
    marks = ["", ", 'Q', 'q', 'd', 'o'", ", NULL, NULL, NULL, 'o'", ", 'Q', 'q', 'd'"]
    assert_parity(spark, table, [f"mask({text}{each})" for each in marks])


def test_the_longest_negative_intervals_are_subtracted(spark: SparkSession) -> None:
    """Spark turns their sign first."""
    table = pa.table(
        {
            "n": pa.array([-(2**31), 2**31 - 1, 1, None], pa.int32()),
            "d": pa.array([-(2**63), 2**63 - 1, 86_400_000_000, None], pa.duration("us")),
            "dt": pa.array([0, None, 10, 1], pa.date32()),
            "ts": pa.array([0, None, 10, 1], pa.timestamp("us", "UTC")),
            "ntz": pa.array([0, None, 10, 1], pa.timestamp("us")),
        }
    )
    months = [f"{each} - INTERVAL '1' MONTH * n" for each in ("dt", "ts", "ntz")]
    assert_parity(spark, table, [*months, *(f"{each} - d" for each in ("dt", "ts", "ntz"))])


def test_parts_of_malformed_texts(spark: SparkSession) -> None:
    table = pa.table({"b": [b"a\xff", b"", b"\xff", b"a,\xff", None], "s": ["", ",", "", ",", ","]})
    text = "CAST(b AS STRING)"
    delimiters = ["s", "','", "''", "collation(s)", "b", "typeof(s)"]
    expressions = [f"split_part({text}, {each}, {n})" for each in delimiters for n in (1, -1, 2)]
    assert_parity(spark, table, expressions)


def test_times_of_a_zone_that_is_null(spark: SparkSession) -> None:
    table = pa.table({"s": ["x"], "z": pa.array([0], pa.int32())})
    raising = "timestamp_seconds(1 div z)"
    expressions = [f"{way}_utc_timestamp({raising}, NULL)" for way in ("from", "to")]
    assert_parity(spark, table, [*expressions, f"to_utc_timestamp({raising}, lower(NULL))"])


def test_keys_of_interpreted_maps_are_looked_at_in_turn(spark: SparkSession) -> None:
    table = pa.table({"s": ["a", None, "b", "c"], "z": pa.array([0, 0, 1, 1], pa.int32())})
    maps = ["map(v, 1, string(1 div z), 2)", "map(v, 1 div z)", "map('a', 1, v, 2, 'q', 1 div z)"]
    assert_parity(spark, table, [f"transform(array(s), v -> {each})" for each in maps])


def test_nullability_that_raises(spark: SparkSession) -> None:
    csv = "from_csv('x', 'a INT', map('mode', 'FAILFAST')).a"
    index = f"length(string({csv}))"
    table = pa.table({"i": pa.array([1], pa.int32())})
    assert_parity(spark, table, [f"typeof(array(i)[{index}])"])


def test_constant_texts_that_raise_are_refused(spark: SparkSession) -> None:
    frame = frame_of(spark, pa.table({"i": pa.array([1], pa.int32())}))
    _, problems = read_expressions(frame, ["to_json(map(CAST(NULL AS ARRAY<INT>), 1))"])
    assert problems


def test_decimals_next_to_a_whole_number(spark: SparkSession) -> None:
    """One that Spark keeps as a BigDecimal becomes an INT by way of a DOUBLE."""
    numbers = ["0.999999999999999999", "-0.999999999999999999", "0.4"]
    table = pa.table({"q": pa.array(list(map(Decimal, numbers)), pa.decimal128(18, 18))})
    wide = "cast(q as decimal(38, 18))"
    of = ["q", "q * 1", "q + 0", "q + q - q", "-q", "abs(q)", "nvl(q, q)", "round(q, 18)", wide]
    constants = ["0.999999999999999999BD", "cast('0.999999999999999999' as decimal(18, 18))"]
    of += [f"cast({wide} as decimal(18, 18))", "array(q)[0]", "q / 1", *constants]
    assert_parity(spark, table, [f"try_cast({each} as int)" for each in of])
    assert_parity(spark, table, [f"cast({each} as bigint)" for each in of])


def test_decimals_of_more_places_than_a_bigint_are_refused(spark: SparkSession) -> None:
    """Spark divides by a power of ten that it has not; what it keeps as a BigDecimal it can."""
    zeros = map(Decimal, ("0.0000", "0E-19"))
    table = pa.table(
        {name: [zero, None] for name, zero in zip(("few", "many"), zeros, strict=True)}
    )
    casts = ["cast(nvl2(many, few, many) as tinyint)", "int(cast(few as decimal(30, 19)))"]
    _, problems = read_expressions(frame_of(spark, table), casts)
    assert len(problems) == len(casts)
    assert_parity(spark, table, ["int(many)", "int(round(cast(few as decimal(30, 19)), 5))"])


def test_products_of_intervals_that_do_not_fit(spark: SparkSession) -> None:
    table = pa.table(
        {
            "i": pa.array([0, -1, 2**31 - 1], pa.int32()),
            "l": pa.array([2**30, 2**62, 1], pa.int64()),
            "q": pa.array(map(Decimal, ("0.001", "-1", "1e6")), pa.decimal128(10, 3)),
        }
    )
    intervals = ["INTERVAL '-178956970-8' YEAR TO MONTH", "INTERVAL '106751991' DAY"]
    scaled = [f"{each} {op} {n}" for each in intervals for op in "*/" for n in ("i", "l", "q")]
    assert_parity(spark, table, [f"timestamp_ntz'2000-01-01' + ({each})" for each in scaled])


def test_digits_of_any_script_in_an_url(spark: SparkSession) -> None:
    table = pa.table(
        {"s": ["%D\uff46", "%\uff21\u0663", "%\uff271", "%-\u0660", "%+\u0967", "%-1"]}
    )
    assert_parity(spark, table, ["url_decode(s)", "try_url_decode(s)"])


def test_days_that_no_timestamp_reaches(spark: SparkSession) -> None:
    days = [2**31 - 1, 328_000_000, 106_751_992, -106_751_992, -(2**31), 0, None]
    table = pa.table({"dt": pa.array(days, pa.int32()).cast(pa.date32())})
    options = "map('dateFormat', 'E dd.MM.yyyy D')"
    assert_parity(
        spark, table, [f"to_json(struct(dt), {options})", f"to_csv(struct(dt, 1), {options})"]
    )


def test_zones_that_are_no_utf8(spark: SparkSession) -> None:
    raw = pa.array([b"UTC \xff", b"\xff", b"UTC", None], pa.binary()).view(pa.string())
    table = pa.table({"raw": raw, "y": pa.array([1916, 1, 2, 3], pa.int32())})
    names = ["make_timestamp", "make_timestamp_ltz"]
    zoned = [f"{name}(y, 2, 4, 0, 0, 0, raw)" for name in names]
    at = "timestamp_seconds(y)"
    assert_parity(spark, table, [*zoned, f"from_utc_timestamp({at}, raw)"])


def test_letters_that_java_does_not_know_yet(spark: SparkSession) -> None:
    """Of Unicode 14; a Python that knows them does not change what is masked."""
    table = pa.table({"c": ["\u2c2fa", "\ua7c0\u2c5f", "\ua7d1", "\u0663", "\u0e58\u0662"]})
    assert_parity(spark, table, ["mask(c)", "mask(c, 'X', 'x', 'n', 'o')", "luhn_check(c)"])


def test_arrays_of_floats_that_are_null(spark: SparkSession) -> None:
    """Spark does not see it; the array beside it may raise."""
    table = pa.table({"z": pa.array([0, 1, None], pa.int32())})
    null = "CAST(NULL AS ARRAY<DOUBLE>)"
    names = ["array_union", "array_intersect", "array_except", "arrays_overlap"]
    sets = [f"{name}(array(double(1 div z)), {null})" for name in names]
    assert_parity(
        spark, table, [*sets, f"array_intersect(array(1 div z), CAST({null} AS ARRAY<INT>))"]
    )


def test_seconds_of_the_earliest_timestamp(spark: SparkSession) -> None:
    table = pa.table({"p": [-1e300, -1.5, -1e-6, 0.0, 1e300]})
    names = ("to_unix_timestamp", "unix_timestamp", "unix_seconds")
    assert_parity(spark, table, [f"{name}(timestamp_seconds(p))" for name in names])


def test_what_has_one_value_without_being_constant(spark: SparkSession) -> None:
    """Spark's optimizer keeps it from raising."""
    table = pa.table({"t": [True, False, None], "n": pa.array([1, 1, None], pa.int32())})
    ntz = "hash(CAST(array() AS array<timestamp_ntz>), array(TIMESTAMP_NTZ'2024-10-27 01:00:00'))"
    expressions = ["assert_true(t) IN (NULL, NULL)", "size(map(n, 1, 1, 2))", f"array(n, n)[{ntz}]"]
    assert_parity(spark, table, [*expressions, "size(array(n, n))", "n IN (NULL, NULL)"])


def test_the_least_position(spark: SparkSession) -> None:
    """Not of arrays in columns: there Spark reads beyond them, and its process may end."""
    table = pa.table({"i": pa.array([-(2**31), 1, -2, 7, None], pa.int32())})
    functions = [
        f"{name}(array(1, 2), coalesce(i, 1))" for name in ("element_at", "try_element_at")
    ]
    assert_parity(spark, table, functions)


def test_constants_of_no_rows(spark: SparkSession) -> None:
    """Arrow repeats no list zero times."""
    table = pa.table({"i": pa.array([], pa.int32()), "a": pa.array([], pa.list_(pa.int32()))})
    constants = ["array_repeat('x', 3)", "str_to_map('a:1')", "named_struct('a', array(1))"]
    assert_parity(spark, table, [*constants, "transform(array(1, 2), v -> v + i)", "i = 1 / i"])
    assert_parity(spark, table, ["arrays_zip(a, array('a'))", "array_position(a, i)", "upper('x')"])


def test_the_end_of_a_record_that_is_kept(spark: SparkSession) -> None:
    table = pa.table({"s": ["a\r", "a\n", "a\r\n", "a\n\r", "a\r\r", "\r", "\n", "a", "a,b\r"]})
    options = "map('columnNameOfCorruptRecord', 'q')"
    assert_parity(spark, table, [f"from_csv(s, 'a STRING, b STRING, q STRING', {options})"])


def test_malformed_texts_that_nothing_is_cut_from(spark: SparkSession) -> None:
    """Python's ``split`` returns the text itself where its characters are of fewer bytes."""
    table = pa.table({"b": [b"\xf0a\xf5,b", b"\xf5", b""], "p": ["\U00010400", "\u20ac", "a"]})
    assert_parity(
        spark, table, ["split(CAST(b AS STRING), p)", "split(CAST(b AS STRING), '\u20ac')"]
    )


def test_constants_of_an_array_of_nothing(spark: SparkSession) -> None:
    """NULL keeps what stands before it from being evaluated, once the optimizer has seen it."""
    table = pa.table({"m": pa.array([1, 5, None], pa.int32()), "s": ["ab", "a", "b"]})
    null = "array_max(CAST(array() AS ARRAY<STRING>))"
    raising = "regexp_extract(s, '(a)(b)?', m)"
    expressions = [f"translate({raising}, s, {null})", f"concat(upper({raising}), {null})"]
    assert_parity(spark, table, [*expressions, f"coalesce({null}, {raising})"])
