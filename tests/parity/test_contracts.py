"""What Spark's expressions are made with, as its jars tell, and what the kernels declare."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

import engine.expressions.compile  # registers the kernels
from engine.expressions.registry import KERNELS
from engine.plan.catalyst_expressions import DERIVED, parameter_name
from tests.parity.class_files import Classes

assert engine.expressions.compile
_EXPRESSIONS = "org/apache/spark/sql/catalyst/expressions/"
_OURS = {"Column", "LambdaFunction", "NamedLambdaVariable"}
"""Nodes that the plan reader makes by hand."""
_NEWER = {"Ceil": {"fail_on_error"}, "Floor": {"fail_on_error"}}
"""What the newest Spark has, and older ones do not."""


@pytest.fixture(scope="module")
def classes() -> Classes:
    jars = Path(pyspark.__file__).parent / "jars"
    return Classes(sorted(jars.glob("spark-catalyst_*.jar")))


@pytest.fixture(scope="module")
def expressions(classes: Classes) -> dict[str, str]:
    """Simple name → name."""
    return {name.rpartition("/")[2]: name for name in classes if name.startswith(_EXPRESSIONS)}


def test_nothing_that_an_expression_is_made_with_is_ignored(
    classes: Classes, expressions: dict[str, str]
) -> None:
    undeclared = {}
    for op, kernel in KERNELS.items():
        if op in _OURS or op not in expressions:
            continue
        found = classes.get(expressions[op])
        assert found is not None
        said = {
            parameter_name(name)
            for name, kind in found.parameters.items()
            if not _may_hold_children(classes, kind)
        }
        if rest := said - set(kernel.reads) - DERIVED:
            undeclared[op] = sorted(rest)
    assert undeclared == {}


def _may_hold_children(classes: Classes, descriptor: str) -> bool:
    """Expressions are, and sequences of them; what else a sequence has, the plan reader sees."""
    kind = descriptor[1:-1]
    return kind in ("scala/collection/immutable/Seq", "scala/Option") or classes.is_a(
        kind, f"{_EXPRESSIONS}Expression"
    )


def test_what_is_declared_is_there(classes: Classes, expressions: dict[str, str]) -> None:
    """A name that Spark has changed would be read as if it were not there."""
    gone = {}
    for op, kernel in KERNELS.items():
        if op in _OURS or op not in expressions:
            continue
        found = classes.get(expressions[op])
        assert found is not None
        names = {parameter_name(name) for name in found.parameters}
        declared = {name for name in kernel.reads if "." not in name}
        if rest := declared - names - _NEWER.get(op, set()):
            gone[op] = rest
    assert {
        op: rest for op, rest in gone.items() if not _shared(op, rest, classes, expressions)
    } == {}


def _shared(op: str, rest: set[str], classes: Classes, expressions: dict[str, str]) -> bool:
    """Whether another of the classes that the same kernel serves has them."""
    names: set[str] = set()
    for other, kernel in KERNELS.items():
        if kernel.factory is KERNELS[op].factory and other in expressions:
            found = classes.get(expressions[other])
            assert found is not None
            names |= {parameter_name(name) for name in found.parameters}
    return rest <= names
