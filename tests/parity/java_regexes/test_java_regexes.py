"""A few of the random patterns; ``python -m tests.parity.java_regexes`` draws many."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from engine.expressions.texts.java_regex.char_sets import LAST, SURROGATES
from engine.expressions.texts.java_regex.pattern import compile_java_regex
from tests.parity.java_regexes.comparing import compare

pytestmark = pytest.mark.spark


def test_random_patterns_are_javas(spark: SparkSession) -> None:
    outcome = compare(spark._jvm, 7, 300)
    assert outcome.differences == []
    assert outcome.counts["same"] > 200


@pytest.mark.parametrize(
    "pattern",
    [
        "\\p{L}",
        "\\p{Mn}",
        "\\p{Cn}",
        "\\p{IsAlphabetic}",
        "\\p{IsLowercase}",
        "(?U)\\w",
        "(?iu)[k-ſ]",
    ],
)
def test_every_character(spark: SparkSession, pattern: str) -> None:
    jvm = spark._jvm
    assert jvm is not None
    java = int(jvm.System.getProperty("java.specification.version"))
    every = "".join(chr(point) for point in range(LAST + 1) if point not in SURROGATES)
    theirs = jvm.java.util.regex.Pattern.compile(pattern).matcher(every).replaceAll("")
    ours = compile_java_regex(pattern, java).plain.pattern.sub("", every)
    assert ours == theirs
