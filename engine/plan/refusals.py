"""Why a plan node cannot run continuously, and what to do instead.

Nodes that are not listed are refused all the same, in general words.
"""

from __future__ import annotations

from typing import Final

HINT: Final = (
    'Change the query, or use trigger(processingTime="...") or trigger(availableNow=True): '
    "then Spark itself runs it, batch by batch."
)

_STATE = "it would need state across records, which continuous queries do not keep yet"
_PYTHON = "Python functions over batches do not run continuously yet; use built-in functions"
_LIMIT = (
    "a limit counts records across all partitions; filter instead, or drain the query when done"
)
_SORT = "a stream that never ends cannot be sorted; sort where the result is read"
_EXCHANGE = "records stay in the partition that read them; set the source's number of partitions"

_REASONS: Final[dict[str, str]] = {
    "Aggregate": f"aggregation: {_STATE}",
    "Deduplicate": f"deduplication: {_STATE}",
    "DeduplicateWithinWatermark": f"deduplication: {_STATE}",
    "Distinct": f"deduplication: {_STATE}",
    "FlatMapGroupsWithState": _STATE,
    "FlatMapGroupsInPandas": _PYTHON,
    "FlatMapGroupsInArrow": _PYTHON,
    "FlatMapGroupsInPandasWithState": _STATE,
    "TransformWithState": _STATE,
    "TransformWithStateInPySpark": _STATE,
    "Window": f"window functions: {_STATE}",
    "Join": "a query reads one stream; join it after the sink, or in foreachBatch",
    "AsOfJoin": "a query reads one stream; join it after the sink, or in foreachBatch",
    "LateralJoin": "a query reads one stream; join it after the sink, or in foreachBatch",
    "Union": "a query reads one stream; start one query per stream",
    "Generate": "explode and other generators are not supported yet; explode where the result is"
    " read",
    "Expand": "grouping sets need aggregation",
    "GlobalLimit": _LIMIT,
    "LocalLimit": _LIMIT,
    "Limit": _LIMIT,
    "Offset": _LIMIT,
    "Tail": _LIMIT,
    "Sort": _SORT,
    "Sample": "sampling is not supported yet; filter on a hash or on the value instead",
    "Repartition": _EXCHANGE,
    "RepartitionByExpression": _EXCHANGE,
    "RebalancePartitions": _EXCHANGE,
    "MapInPandas": _PYTHON,
    "MapInArrow": _PYTHON,
    "PythonMapInArrow": _PYTHON,
    "ArrowEvalPython": _PYTHON,
    "BatchEvalPython": _PYTHON,
    "CollectMetrics": "observe() is not supported; the query's own progress counts records",
    "StreamingRelation": "Spark reads this source by micro-batches only; for files that grow or"
    ' arrive, use readStream.format("tail")',
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
