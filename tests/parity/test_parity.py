"""A small part of the oracle, and what keeps it complete."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from engine.expressions.registry import KERNELS
from tests.parity.columns import table
from tests.parity.measure import declared, kernels, loops, trees
from tests.parity.oracle import Report, Setting, run
from tests.parity.templates import Family, families

pytestmark = pytest.mark.spark

FAMILIES = list(families())
# Reached only where a constant is not folded, or through others.
_NOT_FROM_SQL = {"Column", "Literal", "AtLeastNNonNulls"}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_few_rows_of_everything(spark: SparkSession, family: Family) -> None:
    report = Report()
    run(spark, [family], Setting(7, 20, FAMILIES.index(family) % 2 == 0, "Europe/Berlin"), report)
    assert report.differences == []
    assert report.cases > 0


def test_every_kernel_has_a_template_and_says_whether_it_loops(spark: SparkSession) -> None:
    reached: set[str] = set()
    wrong = []
    for family in FAMILIES:
        batch = table(family.columns, 400, 1).to_batches()[0]
        texts = [text for texts in family.templates.values() for text in texts]
        for text, tree in zip(texts, trees(spark, family, texts), strict=True):
            reached |= {node.op for node in tree.walk()}
            if loops(tree, batch) and not declared(kernels(tree)):
                wrong.append(f"{text} loops over rows: one of {sorted(kernels(tree))}")
    assert set(KERNELS) - reached - _NOT_FROM_SQL == set()
    assert wrong == []
