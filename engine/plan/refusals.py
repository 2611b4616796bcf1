"""Why a plan node cannot run continuously, and what to do instead.

Nodes that are not listed are refused all the same, in general words.
"""

from __future__ import annotations

from typing import Final

HINT: Final = (
    'Change the query, or use trigger(processingTime="...") or trigger(availableNow=True): '
    "then Spark itself runs it, batch by batch."
)
HINT_REFUSED_BY_SPARK: Final = (
    "Change the query, or its output mode: as it is, Spark itself does not start it with any "
    "trigger."
)

_GROUPS = "it needs all rows of a group at once, which a stream never has"
_OF_THE_JVM = "its function is of the JVM, and no Python"
NESTED_MAX: Final = 200
"""Levels of an expression: deeper ones cannot be sent to the tasks."""
TOO_DEEP: Final = (
    f"is nested more than {NESTED_MAX} levels deep: let halves of a long chain of +, || or OR stand"
    " in parentheses, or use coalesce, concat, IN or an array in its place"
)

_OUTER = (
    "which rows of the table have no match is known when the stream has ended; let the stream be"
    " the side that is kept"
)
_LIMIT = (
    "a limit counts records across all partitions; filter instead, or drain the query when done"
)
_SORT = "a stream that never ends cannot be sorted; sort where the result is read"

_REASONS: Final[dict[str, str]] = {
    "FlatMapGroupsWithState": _OF_THE_JVM,
    "FlatMapGroupsInPandas": f"{_GROUPS}; use applyInPandasWithState",
    "FlatMapGroupsInArrow": f"{_GROUPS}; use transformWithState",
    "TransformWithState": _OF_THE_JVM,
    "Window": f"{_GROUPS}; use groupBy(window(...))",
    "Join": "two streams are joined by equalities (a.id = b.id), inner, left, right, full or left"
    " semi",
    "Left Outer Join": _OUTER,
    "Right Outer Join": _OUTER,
    "Full Outer Join": _OUTER,
    "Left Semi Join": _OUTER,
    "Left Anti Join": _OUTER,
    "Subquery": "Spark makes a join of the stream with itself of it: let it depend on the row by"
    " equalities only",
    "AsOfJoin": "it finds partners by nearness, which has no continuous counterpart yet; join by a"
    " condition, or in foreachBatch",
    "Union": "a table has no end that an epoch could commit; write it once, by itself",
    "GlobalLimit": _LIMIT,
    "LocalLimit": _LIMIT,
    "Limit": _LIMIT,
    "Offset": _LIMIT,
    "Tail": _LIMIT,
    "Sort": _SORT,
    "Sample": "it draws rows by their position in a partition, which a restart would change; filter"
    " on a hash of a column, e.g. pmod(xxhash64(id), 100) < 5",
    "StreamingRelation": "Spark reads this source by micro-batches only, and it is no folder of"
    " Parquet, ORC, JSON, CSV or text files",
    "Range": "it is not a stream",
    "LocalRelation": "it is not a stream",
    "OneRowRelation": "it is not a stream",
    "LogicalRDD": "it is not a stream",
    "LogicalRelation": "it is not a stream",
}


def node_refusal(name: str, detail: str = "") -> str:
    """The problem text for one node.

    :param name: the node's name in Spark, e.g. ``Aggregate``.
    :param detail: which one, e.g. the name of the source.
    """
    reason = _REASONS.get(name, "this operation has no continuous counterpart yet")
    shown = {"GlobalLimit": "Limit", "LocalLimit": "Limit"}.get(name, name)
    return f"the operation {shown}{f' ({detail})' if detail else ''}: {reason}"


def generator_refusal(name: str) -> str:
    """Why a generator cannot run continuously.

    :param name: the class's name in Spark, e.g. ``SQLKeywords``.
    """
    if "UDTF" in name:
        return "table functions do not run continuously yet; return an array and explode it"
    return f"{name} has no continuous counterpart yet"
