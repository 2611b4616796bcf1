"""What the oracle has found about which arguments Spark's compiled code evaluates, and which first,
and which errors it has: what interprets expressions has others."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.parity.invented.modes import Mode
from tests.parity.invented.player import Counts, Player
from tests.parity.invented.trees import Leaf
from tests.parity.oracle import Setting
from tests.spark.expressions import configured

pytestmark = pytest.mark.spark

_COMPILED = Mode(True, False)
_OVERFLOW = "i + i"
_ZERO = "1 div z"
_YEARS = pa.table(
    {
        "y": pa.array([2024, -(2**31), 2024, None], pa.int32()),
        "z": ["Mars", "Mars", "UTC", "Mars"],
    }
)


@pytest.mark.parametrize(
    "expression",
    [
        f"array_join(IF(n, NULL, array(s)), string({_OVERFLOW}), string({_ZERO}))",
        f"array_join(IF(n, NULL, array(s)), string({_OVERFLOW}))",
        f"array_join(array(string({_OVERFLOW})), s, IF(n, NULL, s))",
        f"array_repeat(string({_OVERFLOW}), int({_ZERO}))",
        f"arrays_zip(IF(n, NULL, array(s)), array({_OVERFLOW}), array({_ZERO}))",
        f"concat(IF(n, NULL, s), string({_OVERFLOW}))",
        f"vector_norm(concat(IF(n, NULL, array(1F)), array(float({_OVERFLOW}))), 1F)",
        f"IF(n, NULL, dt) - INTERVAL '1' MONTH * ({_OVERFLOW})",
        f"levenshtein(IF(n, NULL, s), string({_OVERFLOW}))",
        f"levenshtein(s, IF(n, NULL, s), {_OVERFLOW})",
        f"map(IF(n, NULL, s), {_OVERFLOW}, s, int({_ZERO}))",
        f"map(s, {_OVERFLOW}, string({_ZERO}), 1)",
        f"map(IF(n, NULL, s), 1, string({_OVERFLOW}), 2)",
        f"map_concat(IF(n, NULL, map(s, i)), map(s, {_OVERFLOW}))",
        f"sequence(IF(n, NULL, dt), dt + ({_OVERFLOW}), INTERVAL 40 YEARS)",
        f"rpad(IF(n, NULL, cast(s as binary)), {_OVERFLOW})",
        f"hll_sketch_estimate(rpad(IF(n, NULL, cast(s as binary)), {_OVERFLOW}))",
        f"split_part(IF(n, NULL, s), s, {_OVERFLOW})",
        f"to_utc_timestamp(timestamp_seconds({_OVERFLOW}), NULL)",
        f"from_utc_timestamp(timestamp_seconds({_OVERFLOW}), lower(NULL))",
    ],
)
def test_order_of_arguments(spark: SparkSession, expression: str) -> None:
    rows = {"i": pa.array([2**31 - 1, 2**31 - 1, 1, 1], pa.int32())}
    rows |= {"z": [0, 0, 0, 1], "n": [True, False, False, False], "s": ["a", "b", "c", "d"]}
    table = pa.table({**rows, "dt": pa.array([0, 1, 2, 3], pa.date32())})
    assert _differences(spark, table, expression) == []


@pytest.mark.parametrize(
    "expression",
    [
        "sequence(1, 9, n)",
        "sequence(9, 1, bigint(n))",
        "sequence(dt, dt + 9, INTERVAL '-1' DAY)",
        "transform(array(n), v -> sequence(1, 9, v))",
        "array_compact(sequence(1, 9, n))",
    ],
)
def test_sequences_that_lead_away(spark: SparkSession, expression: str) -> None:
    """What is not compiled has another error."""
    rows = {"n": pa.array([0, -1, 1, None], pa.int32()), "dt": pa.array([0, 1, 2, 3], pa.date32())}
    assert _differences(spark, pa.table(rows), expression) == []


@pytest.mark.parametrize("name", ["make_timestamp", "make_timestamp_ltz", "try_make_timestamp"])
@pytest.mark.parametrize("ansi", [True, False])
def test_zones_are_looked_at_after_the_other_parts_of_a_time(
    spark: SparkSession, name: str, ansi: bool
) -> None:
    """And one that there is not is a part that is wrong."""
    assert _differences(spark, _YEARS, f"{name}(y, 2, 3, 0, 0, 0, z)", ansi) == []


@pytest.mark.parametrize("name", ["make_timestamp", "make_timestamp_ltz", "try_make_timestamp"])
@pytest.mark.parametrize("ansi", [True, False])
def test_zones_are_looked_at_first_where_times_are_interpreted(
    spark: SparkSession, name: str, ansi: bool
) -> None:
    """And one that there is not raises in each mode; the planner refuses a constant."""
    for zone in ("z", "'Mars'"):
        expression = f"array_compact(array({name}(y, 2, 3, 0, 0, 0, {zone})))"
        assert _differences(spark, _YEARS, expression, ansi, is_refused=zone != "z") == []


def test_dates_that_are_no_timestamps_behind_null(spark: SparkSession) -> None:
    """They overflow in every mode, where they are looked at."""
    table = pa.table({"n": pa.array([2**31 - 2, 1], pa.int32())})
    expression = "months_between(CAST(NULL AS date), date_add(date'1970-01-01', n), false)"
    assert _differences(spark, table, expression, ansi=False) == []


def test_a_part_of_a_struct_is_kept_as_it_was_put_in(spark: SparkSession) -> None:
    """By way of a DOUBLE it is 1, as interpreted; an optimizer would take the struct away."""
    table = pa.table({"d": pa.array([Decimal(f"0.{'9' * 18}"), None], pa.decimal128(18, 18))})
    part = f"named_struct('f', 0.{'9' * 18}BD, 'g', d)"
    for expression in (f"try_cast({part}.f AS SMALLINT)", f"CAST({part}.g AS INT)"):
        assert _differences(spark, table, expression, mode=Mode(False, False)) == []


@pytest.mark.parametrize(
    "chosen",
    [
        "coalesce({one}, d)",
        "coalesce(d * 0, {one})",
        "if(d > 0, {one}, 0.{nines}BD + 0BD)",
        "case when d > 0 then {one} end",
        "case when d < 0 then d else d end",
        "greatest({one}, {one} - 1)",
        "get(array({one}, {one}), i)",
        "get(array(0.9BD * i, {one}), i)",
        "get(array(d, d), i)",
        "map(i, {one})[1]",
        "try_element_at(map(i, d), 1)",
        "coalesce(if(d > 0, null, {one}), {one})",
    ],
)
def test_a_decimal_that_is_chosen_is_kept_as_it_was_put_in(
    spark: SparkSession, chosen: str
) -> None:
    """All that it can be are constants or results, which are BigDecimals, or columns."""
    columns = {"d": pa.array([Decimal(f"0.{'9' * 18}"), None], pa.decimal128(18, 18))}
    table = pa.table({**columns, "i": pa.array([1, 1], pa.int32())})
    value = chosen.format(one=f"0.{'9' * 18}BD", nines="9" * 18)
    expression = f"try_cast({value} AS TINYINT)"
    for mode in (Mode(False, False), _COMPILED):
        assert _differences(spark, table, expression, mode=mode) == []


def _differences(
    spark: SparkSession,
    table: pa.Table,
    expression: str,
    ansi: bool = True,
    mode: Mode = _COMPILED,
    *,
    is_refused: bool = False,
) -> list[str]:
    setting = Setting(0, 4, ansi, "UTC")
    with configured(spark, setting.conf | mode.conf):
        player = Player(spark, setting, False, mode, table)
        tree, counts = Leaf(expression, "", False), Counts()
        assert player.accepted([tree]) == [True]
        found = player.differences([tree], counts)
    assert counts.trees == (0 if is_refused else 1)
    return [each.text for alike in found.values() for each in alike]
