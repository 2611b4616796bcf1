"""Catalyst expressions that no kernel will evaluate soon, and why."""

from __future__ import annotations

from typing import Final

_PLACE: Final = "names a place in a Spark batch, which a continuous query does not have"
_STATE: Final = "needs state across records, which continuous queries do not keep yet"
_PYTHON: Final = "is a Python function: use built-in functions, or write it into foreach"

REFUSED: Final[dict[str, str]] = {
    "Shuffle": "is random and not supported: use rand(), or a hash of the record",
    **dict.fromkeys(("MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName"), _PLACE),
    **dict.fromkeys(("InputFileBlockStart", "InputFileBlockLength"), _PLACE),
    **dict.fromkeys(("AggregateExpression", "WindowExpression", "SessionWindow"), _STATE),
    **dict.fromkeys(("PythonUDF", "PythonUDTF", "ScalaUDF"), _PYTHON),
}
"""Class name → why not, to be read after the name."""
