"""What Spark's expressions are made with, as its jars tell, and what the kernels declare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import engine.expressions.compile  # registers the kernels
from engine.expressions.registry import KERNELS, Kernel
from engine.plan.catalyst_expressions import DERIVED, parameter_name
from tests.parity.class_files import Classes, ClassFile

assert engine.expressions.compile
_EXPRESSIONS = "org/apache/spark/sql/catalyst/expressions/"
_OURS = {"Column", "LambdaFunction", "NamedLambdaVariable"}
"""Nodes that the plan reader makes by hand."""
_NEWER = {"Ceil": {"fail_on_error"}, "Floor": {"fail_on_error"}}
"""What the newest Spark has, and older ones do not."""


_INTERNAL = "org/apache/spark/sql/internal/"
_CONFS = {_INTERNAL + name for name in ("SQLConf", "SQLConf$", "SqlApiConf", "SqlApiConf$")}
_IN_THE_NODE = None
"""The constructor, the type or the children have what the setting says."""
_SAME_RESULT = None
"""It is of how fast Spark is, or of what its analyzer and our types refuse."""
_SETTINGS = {
    "ALLOW_ZERO_INDEX_IN_FORMAT_STRING": "spark.sql.legacy.allowZeroIndexInFormatString",
    "COLUMN_NAME_OF_CORRUPT_RECORD": "spark.sql.columnNameOfCorruptRecord",
    "ICU_CASE_MAPPINGS_ENABLED": "spark.sql.icu.caseMappings.enabled",
    "LEGACY_COMPLEX_TYPES_TO_STRING": "spark.sql.legacy.castComplexTypesToString.enabled",
    "LEGACY_RAISE_ERROR_WITHOUT_ERROR_CLASS": "spark.sql.legacy.raiseErrorWithoutErrorClass",
    "LEGACY_TRUNCATE_FOR_EMPTY_REGEX_SPLIT": "spark.sql.legacy.truncateForEmptyRegexSplit",
    "legacyNullInEmptyBehavior": "spark.sql.legacy.nullInEmptyListBehavior",
    "ANSI_ENABLED": _IN_THE_NODE,
    "LEGACY_ALLOW_NULL_COMPARISON_RESULT_IN_ARRAY_SORT": _IN_THE_NODE,
    "LEGACY_ARRAY_EXISTS_FOLLOWS_THREE_VALUED_LOGIC": _IN_THE_NODE,
    "LEGACY_CREATE_EMPTY_COLLECTION_USING_STRING_TYPE": _IN_THE_NODE,
    "ansiEnabled": _IN_THE_NODE,
    "chunkBase64StringEnabled": _IN_THE_NODE,
    "legacyCodingErrorAction": _IN_THE_NODE,
    "legacyIntervalEnabled": _IN_THE_NODE,
    "legacyJavaCharsets": _IN_THE_NODE,
    "legacyNegativeIndexInArrayInsert": _IN_THE_NODE,
    "legacySizeOfNull": _IN_THE_NODE,
    "sessionLocalTimeZone": _IN_THE_NODE,
    "timestampType": _IN_THE_NODE,
    "BINARY_OUTPUT_STYLE": _SAME_RESULT,  # how show() writes them; CAST does not heed it
    "COLLATION_AWARE_HASHING_ENABLED": _SAME_RESULT,
    "LEGACY_ALLOW_HASH_ON_MAPTYPE": _SAME_RESULT,
    "MAP_LOOKUP_HASH_THRESHOLD": _SAME_RESULT,
    "MULTI_COMMUTATIVE_OP_OPT_THRESHOLD": _SAME_RESULT,
    "STORE_ASSIGNMENT_POLICY": _SAME_RESULT,
    "VARIANT_ALLOW_DUPLICATE_KEYS": _SAME_RESULT,  # of from_json; parse_json heeds it
    "VARIANT_VALIDATE_UNICODE_IN_JSON_PARSING": "spark.sql.variant.validateUnicodeInJsonParsing",
    "mapZipWithUsesJavaCollections": _SAME_RESULT,
    "preserveCharVarcharTypeInfo": _SAME_RESULT,
    "subexpressionEliminationEnabled": _SAME_RESULT,
}
"""What Spark's expressions ask their session for, as its code names it, and the key of it."""


@pytest.fixture(scope="module")
def classes() -> Classes:
    jars = Path(pyspark.__file__).parent / "jars"
    return Classes(sorted(jars.glob("spark-catalyst_*.jar")))


@pytest.fixture(scope="module")
def expressions(classes: Classes) -> dict[str, str]:
    """Simple name → name."""
    return {name.rpartition("/")[2]: name for name in classes if name.startswith(_EXPRESSIONS)}


def _of_spark(
    classes: Classes, expressions: dict[str, str]
) -> Iterator[tuple[str, Kernel, ClassFile]]:
    """The kernels of Spark's classes, and these."""
    for op, kernel in KERNELS.items():
        if op not in _OURS and op in expressions:
            found = classes.get(expressions[op])
            assert found is not None
            yield op, kernel, found


def test_nothing_that_an_expression_is_made_with_is_ignored(
    classes: Classes, expressions: dict[str, str]
) -> None:
    undeclared = {}
    for op, kernel, found in _of_spark(classes, expressions):
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


def test_no_setting_that_an_expression_asks_for_is_ignored(
    classes: Classes, expressions: dict[str, str]
) -> None:
    """Those that its class, its companion and what it extends ask for themselves."""
    undeclared = {}
    for op, kernel, found in _of_spark(classes, expressions):
        asked = {
            method
            for name in _with_parents(classes, found.name)
            for of_class, method, _ in _calls(classes, name)
            if of_class in _CONFS
        }
        keys = {_SETTINGS.get(name, name) for name in asked - {"get", "getConf", "MODULE$"}}
        if rest := keys - {_IN_THE_NODE, _SAME_RESULT, *kernel.reads, *kernel.presumes}:
            undeclared[op] = sorted(map(str, rest))
    assert undeclared == {}


def _with_parents(classes: Classes, name: str) -> Iterator[str]:
    found = classes.get(name)
    if found is None or name.rpartition("/")[2] in ("Expression", "TreeNode"):
        return
    yield name
    for parent in found.parents:
        yield from _with_parents(classes, parent)


def _calls(classes: Classes, name: str) -> Iterator[tuple[str, str, str]]:
    for each in (name, f"{name}$"):
        if (found := classes.get(each)) is not None:
            yield from found.calls


def test_what_is_declared_is_there(classes: Classes, expressions: dict[str, str]) -> None:
    """A name that Spark has changed would be read as if it were not there."""
    gone = {}
    for op, kernel, found in _of_spark(classes, expressions):
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
