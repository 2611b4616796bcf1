"""Which kernels a template reaches, whether they loop over rows, what a row costs, and whether all
this may have changed since."""

from __future__ import annotations

import ast
import hashlib
import importlib
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import engine.expressions
from engine.errors import TransformError
from engine.expressions.compile import compile_expression, fold
from engine.expressions.registry import KERNELS, Context, Evaluator
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.expressions.types import schema_to_spark
from tests.parity.columns import table
from tests.parity.jars import add_jars
from tests.parity.templates import Family
from tests.spark.expressions import configured, read_expressions

ROWS = 1_000
_CONTEXT = Context()


def trees(spark: SparkSession, family: Family, texts: Iterable[str]) -> list[Expr]:
    """The expressions as the planner reads them."""
    add_jars(spark, family.jars)
    empty = table(family.columns, 1, 0)
    frame = spark.createDataFrame(empty, StructType.fromJson(schema_to_spark(empty.schema)))
    found, problems = read_expressions(frame, list(texts))
    assert problems == [], problems
    return found


def measure(spark: SparkSession, family: Family) -> dict[str, Any]:
    """SQL name → its templates, the kernels that they reach, a digest of these kernels' modules,
    the kernels that were evaluated when rows were looped over, and nanoseconds a row."""
    columns = table(family.columns, ROWS, 1).to_batches()[0]
    batch = Rows(ROWS, columns.column)
    result = {}
    for name, texts in family.templates.items():
        with configured(spark, {"spark.sql.ansi.enabled": "false"}):  # so that few rows raise
            read = trees(spark, family, texts)
        costs = [cost for tree in read if (cost := _cost(tree, batch)) is not None]
        kernels = sorted({node.op for tree in read for node in tree.walk()})
        result[name] = {
            "templates": texts,
            "kernels": kernels,
            "code": code_of(kernels),
            "loops": [sorted(evaluated(tree)) for tree in read if loops(tree, batch)],
            "ns": round(statistics.median(costs)) if costs else None,
        }
    return result


def code_of(kernels: Iterable[str]) -> str:
    """A digest of the modules of these kernels, and of what they import of their own folders;
    empty if one of them is gone."""
    if any(op not in KERNELS for op in kernels):
        return ""
    modules = {each for op in kernels for each in in_family(KERNELS[op].module)}
    digest = hashlib.sha256()
    for module in sorted(modules):
        digest.update(_source(module))
    return digest.hexdigest()[:12]


@cache
def in_family(module: str) -> frozenset[str]:
    """The module, and those of its family that it imports, directly or not. What all families
    share is not among them: a change there would leave no measurement that counts."""
    family = module.rpartition(".")[0]
    if family == engine.expressions.__name__:
        return frozenset({module})
    found: set[str] = set()
    ahead = {module}
    while ahead:
        found |= ahead
        ahead = {name for each in ahead for name in _imported(each, family)} - found
    return frozenset(found)


def _imported(module: str, family: str) -> set[str]:
    names = set()
    for statement in ast.walk(ast.parse(_source(module))):
        if isinstance(statement, ast.ImportFrom):
            names |= {f"{statement.module}.{each.name}" for each in statement.names}
            names.add(str(statement.module))
    folder = Path(importlib.import_module(family).__file__ or "").parent
    return names & {f"{family}.{path.stem}" for path in folder.glob("*.py")}


def _source(module: str) -> bytes:
    return Path(importlib.import_module(module).__file__ or "").read_bytes()


def changed(family: Family, measured: Mapping[str, Any]) -> dict[str, list[str]]:
    """The templates of those names that are new, or whose templates or kernels are not those that
    were measured."""
    return {
        name: texts
        for name, texts in family.templates.items()
        if name not in measured
        or measured[name]["templates"] != texts
        or measured[name].get("code") != code_of(measured[name]["kernels"])
    }


def evaluated(tree: Expr) -> set[str]:
    """The kernels that work for each batch: constants are folded."""
    return {node.op for node in fold(tree, _CONTEXT).walk()} - {"Column", "Literal"}


def _cost(tree: Expr, batch: Rows) -> float | None:
    """Nanoseconds a row; None where a row raises."""
    evaluator = compile_expression(tree, _CONTEXT)
    try:
        evaluator(batch)
    except TransformError:
        return None
    times = []
    for _ in range(3):
        start = time.perf_counter_ns()
        evaluator(batch)
        times.append(time.perf_counter_ns() - start)
    return min(times) / batch.num_rows


def loops(tree: Expr, batch: Rows) -> bool:
    """Whether evaluating runs Python functions for each row, or for every other at least."""
    evaluator = compile_expression(tree, _CONTEXT)
    half = batch.num_rows // 2
    try:
        more = _calls(evaluator, batch) - _calls(evaluator, batch.slice(0, half))
    except TransformError:
        return False
    return more > half // 2


def _calls(evaluator: Evaluator, batch: Rows) -> int:
    """How many functions are called."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        evaluator(batch)
    finally:
        sys.setprofile(None)
    return calls
