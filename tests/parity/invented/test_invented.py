"""The tool itself: a seed draws the same trees always; what is wrong is found and made small."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.registry import KERNELS
from engine.expressions.tree import Expr
from tests.parity import releases
from tests.parity.columns import table
from tests.parity.invented import java_texts
from tests.parity.invented.columns import TEMPLATE_COLUMNS
from tests.parity.invented.drawing import draw_tree
from tests.parity.invented.ends_of_lines import may_read_on
from tests.parity.invented.every_type import Choice
from tests.parity.invented.every_type import run as run_every_type
from tests.parity.invented.grammar import Grammar
from tests.parity.invented.holes import holes
from tests.parity.invented.modes import Mode
from tests.parity.invented.player import Counts, Player
from tests.parity.invented.run import AT_ONCE, Run, differs_compiled
from tests.parity.invented.trees import Leaf, sql
from tests.parity.oracle import Setting
from tests.parity.templates import Family, families
from tests.spark.expressions import configured, frame_of, read_each

pytestmark = pytest.mark.spark
_FRESH = 300
_ATTEMPTS = 600


def _seed() -> int:
    return releases.code() >> 1


def _family(*names: str) -> Family:
    (family,) = (each for each in families() if each.name == "arithmetic")
    return replace(family, templates={name: family.templates[name] for name in names})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("substring(s, i, i2)", ["s", "i", "i2"]),
        ("i + i", ["i", "i"]),
        ("points[m].x", ["points", "m"]),
        ("records.at.y", ["records"]),
        ("transform(nested, v -> transform(v, w -> w + few))", ["nested", "few"]),
        ("aggregate(ints, 0, (acc, v) -> acc + v)", ["ints"]),
        ("timestampadd(DAY, i, ntz)", ["i", "ntz"]),
        ("extract(DAY FROM ts - ts2)", ["ts", "ts2"]),
        ("trim(BOTH 's ' FROM s)", ["s"]),
        ("struct(few as x, key as y)", ["few", "key"]),
        ("to_json(named_struct('a', i, 'b', s))", ["i", "s"]),
        ("concat('😀', s, \"s\")", ["s"]),
    ],
)
def test_holes(spark: SparkSession, text: str, names: list[str]) -> None:
    found = holes(spark, text, TEMPLATE_COLUMNS)
    assert [text[span.start : span.end] for span in found] == names
    assert [span.name for span in found] == names


def test_csv_behind_the_end_of_a_line_is_not_compared() -> None:
    table = pa.table({"s": ["a,b"], "t": ["a\uffff"]})

    def may(name: str, op: str = "CsvToStructs") -> bool:
        return may_read_on(Expr(op, (Expr("Column", params={"name": name}),)), table)

    assert may("t")
    assert not may("s")
    assert not may("t", "Upper")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("to_json(cast(f as variant))", True),
        ("to_json(to_variant_object(named_struct('a', d)))", True),
        ("variant_get(cast(array(d) as variant), '$[0]', 'string')", True),
        ("variant_get(cast(array(d) as variant), '$[0]', 'double')", False),
        ("schema_of_variant(cast(d as variant))", False),
        ("to_json(cast(i as variant))", False),
        ("to_csv(named_struct('a', f, 'b', i))", True),
        ("kll_sketch_to_string_double(kll_double)", True),
        ("kll_sketch_to_string_bigint(kll_bigint)", False),
    ],
)
def test_texts_of_floating_numbers_are_left_to_newer_javas(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str, written: bool
) -> None:
    frame = frame_of(spark, table(TEMPLATE_COLUMNS, 1, 0))
    ((expr, problems),) = read_each(frame, [text])
    assert problems == []
    monkeypatch.setattr(java_texts, "_java_release", lambda spark: 17)
    assert java_texts.writes_floating(spark, expr) is written
    monkeypatch.setattr(java_texts, "_java_release", lambda spark: 21)
    assert not java_texts.writes_floating(spark, expr)


def test_constants_that_spark_computes_before_any_row(spark: SparkSession) -> None:
    """As it does with what becomes a date or a timestamp, whatever rules are switched off."""
    text = "to_timestamp_ltz('no time')"
    text = f"CAST(TRY_CAST(CAST({text} AS VARIANT) AS STRING) AS DATE)"
    setting, mode, counts = Setting(7, 2, True, "UTC"), Mode(False, False), Counts()
    with configured(spark, setting.conf | mode.conf):
        player = Player(spark, setting, False, mode)
        assert player.differences([Leaf(text, "date", False)], counts) == {}
    assert counts.constants == 1


def test_a_constant_that_raises_while_spark_compiles(spark: SparkSession) -> None:
    """A projection is interpreted then, so that only rows that reach it raise."""
    never = "variant_get(parse_json(jv), CAST(1 div 0 AS STRING), 'string')"
    setting, mode = Setting(7, 40, True, "UTC"), Mode(True, False)
    with configured(spark, setting.conf | mode.conf):
        player = Player(spark, setting, False, mode)
        text = f"if(u, {never}, raise_error('no'))"
        assert player.differences([Leaf(text, "string", False)]) == {}


def test_the_same_seed_draws_the_same_trees(spark: SparkSession) -> None:
    family = _family("+", "if", "case", "coalesce", "in")

    def drawn(before: int) -> list[str]:
        grammar = Grammar(spark, [family])
        for other in range(before):
            draw_tree(grammar, random.Random(other))
        return [sql(draw_tree(grammar, random.Random(f"7 {number}"))) for number in range(20)]

    first = drawn(0)
    assert first == drawn(5)
    assert len(set(first)) > 15


def test_a_position_that_raises_where_nobody_asks_for_it(spark: SparkSession) -> None:
    """Spark computes it to tell whether what is there may be NULL."""
    text = "transform(array(p, element_at(doubles, greatest(10 + 2147483647, 1))), v -> v)[0]"
    setting, mode, counts = Setting(7, 1, True, "UTC"), Mode(True, False), Counts()
    with configured(spark, setting.conf | mode.conf):
        player = Player(spark, setting, False, mode)
        assert player.differences([Leaf(text, "double", False)], counts) == {}
    assert counts.trees == 1


def test_an_error_of_java_where_ours_has_a_name(spark: SparkSession) -> None:
    """Spark's compiled RLIKE leaves a pattern of a column to Java, the interpreted one does not."""
    setting = Setting(7, 2, True, "UTC")
    for compiled in (True, False):
        mode, counts = Mode(compiled, False), Counts()
        with configured(spark, setting.conf | mode.conf):
            player = Player(spark, setting, False, mode)
            assert player.differences([Leaf("'a' RLIKE concat('(', i)", "boolean")], counts) == {}
        assert counts.nameless == compiled


def test_a_wrong_kernel_is_found_and_made_small(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = KERNELS["Abs"]
    monkeypatch.setitem(
        KERNELS, "Abs", replace(kernel, factory=lambda expr, children, context: children[0])
    )
    run = Run(spark, 3, [_family("abs", "if", "coalesce")])
    run.play(0, 30, lambda finding: None)
    assert set(run.result.findings) == {frozenset({"abs"})}
    (finding,) = run.result.findings.values()
    assert finding.expression in [f"abs({name})" for name in TEMPLATE_COLUMNS]
    assert "in Spark" in finding.text


@pytest.mark.parametrize(
    ("text", "differs"),
    [
        ("levenshtein(s, typeof(NULL), if(i IS NULL, i, NULL))", False),
        ("levenshtein(typeof(NULL), s)", True),
        ("levenshtein(concat(s, s), s)", True),
    ],
)
def test_what_spark_compiles_only_optimized(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str, differs: bool
) -> None:
    """As it is written it is interpreted, where levenshtein takes a NULL threshold for 0."""
    setting, mode = Setting(7, 40, True, "UTC"), Mode(True, False)
    tree = Leaf(text, "int")
    if differs:
        monkeypatch.setitem(KERNELS, "Levenshtein", KERNELS["Length"])
    with configured(spark, setting.conf | mode.conf):
        player = Player(spark, setting, False, mode)
        assert player.differences([tree])
        assert differs_compiled(spark, player, tree) is differs


def test_a_mark_of_the_byte_order_in_front_of_csv(spark: SparkSession) -> None:
    setting, mode = Setting(7, 1, True, "UTC"), Mode(False, False)
    with configured(spark, setting.conf | mode.conf):
        player, counts = Player(spark, setting, False, mode), Counts()
        text = "from_csv(concat('\ufeff', '1,2'), 'a int, b int')"
        assert player.differences([Leaf(text, "int")], counts) == {}
    assert counts.nameless == 1


def test_what_spark_cannot_compile_as_written_is_read_as_optimized(spark: SparkSession) -> None:
    """Where the optimizer takes the index away, or fails for a constant in front of it."""
    setting, mode = Setting(7, 2, True, "UTC"), Mode(True, False)
    never = "array(d, d)[-2147483648]"
    with configured(spark, setting.conf | mode.conf):
        for text in (never, f"if(assert_true(1 = 2) IS NULL, 1D, {never})"):
            player, counts = Player(spark, setting, False, mode), Counts()
            assert player.differences([Leaf(text, "double")], counts) == {}
            assert counts.trees == 1


@pytest.mark.parametrize("compiled", [True, False])
def test_like_of_a_text_that_is_no_utf8_is_that_of_every_query(
    spark: SparkSession, compiled: bool
) -> None:
    """Spark's optimizer makes it a question of both ends, the regular expression answers else."""
    setting, mode = Setting(7, 1, True, "UTC"), Mode(compiled, False)
    with configured(spark, setting.conf | mode.conf):
        player, counts = Player(spark, setting, False, mode), Counts()
        text = "CAST(X'6161F0616161' AS STRING) LIKE 'aa%aa'"
        assert player.differences([Leaf(text, "boolean")], counts) == {}
    assert counts.trees == 1


def test_this_spark_takes_every_template(spark: SparkSession) -> None:
    assert Grammar(spark, list(families())).missing == set()


def test_nothing_differs(spark: SparkSession) -> None:
    run = Run(spark, 4, [_family("and", "or", "if", "coalesce")])
    run.play(0, 20, lambda finding: None)
    assert [str(finding) for finding in run.result.findings.values()] == []
    assert run.result.counts.trees > 10


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("batch", range(_FRESH // AT_ONCE))
def test_fresh_trees(spark: SparkSession, batch: int) -> None:
    """Others for other code: what differs can be drawn again."""
    seed = _seed()
    run = Run(spark, seed, list(families()))
    run.play(batch, AT_ONCE, lambda finding: None)
    found = [str(finding) for finding in run.result.findings.values()]
    again = f"make invent SEED={seed} TREES={_FRESH} QUERIES=0"
    assert not found, "\n".join([*found, f"Again: {again}"])


@pytest.mark.sampled(0.4)  # drawn apart from the trees
@pytest.mark.parametrize("part", range(2))
def test_arguments_of_rare_types(spark: SparkSession, part: int) -> None:
    """Some of those that ``python -m tests.parity.invented.every_type`` tries, others for other
    code: equal, or refused when the query starts."""
    choice = Choice(_seed() + part, _ATTEMPTS // 2)
    counts = Counts()
    found = list(run_every_type(spark, choice, counts))
    again = f"--seed {choice.seed} --trees {choice.trees}"
    again = f"Again: python -m tests.parity.invented.every_type {again}"
    assert not found, "\n".join([*found, again])
    assert counts.trees > 25
