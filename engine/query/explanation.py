"""``explain``: what would become of a query if it were started, without starting it.

Nothing is created: no checkpoint, no table, no slot. So what only a start can tell is not told:
what the sink says when it is tried, and whether the workers fit (``continuous doctor``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.base.reasons import Reasons
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.first_offsets import first_offsets_folder
from engine.checkpoint.rescaling import wanted_reducers
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.storage.overlay_storage import OverlayStorage
from engine.errors import NotEnoughSlotsError
from engine.exchange.key_groups import KEY_GROUPS
from engine.execution.admission import refuse_changed_query
from engine.execution.definition import QueryDefinition
from engine.execution.sharing import TaskSharing
from engine.execution.slots import Demand
from engine.execution.where_to_start import where_to_start
from engine.expressions.types import sql_name
from engine.pipeline.explain import explain, origin
from engine.query.checked import CheckedQuery, check_query
from engine.query.handed import handed_query
from engine.query.planned import PlannedQuery
from engine.query.stateful_start import shuffle_partitions
from engine.query.write_request import WriteRequest
from engine.query.writer import ContinuousStreamWriter


@dataclass(frozen=True)
class Explanation:
    """:param text: for people.
    :param data: as JSON.
    """

    text: str
    data: dict[str, Any]


def explain_query(writer: ContinuousStreamWriter) -> Explanation:
    """The plan of a query that is not started.

    :raises ConfigError: it would be refused: all reasons at once.
    """
    request = writer.request
    if not writer.runs_here():
        return _explain_sparks(request)
    return _explain_ours(request, check_query(request))


def _explain_ours(request: WriteRequest, checked: CheckedQuery) -> Explanation:
    planned, sink, checkpoint = checked.planned, checked.sink, checked.checkpoint
    found = Reasons()
    storage = OverlayStorage(checkpoint.storage) if checkpoint is not None else _nothing()
    definition = QueryDefinition(
        name=request.query_name,
        streams=planned.streams,
        stages=planned.stages,
        sink=sink,
        checkpoint=Checkpoint(storage),
        epoch_interval_ms=planned.interval_ms,
        options=planned.options,
        watermark_policy=planned.watermark_policy,
        shuffle_partitions=shuffle_partitions(request.df.sparkSession),
    )
    found.hear(lambda: refuse_changed_query(definition))
    counts = found.hear(lambda: _count(definition)) or [None]
    demand = None
    tasks: list[int] = []
    if None not in counts:
        known = [each for each in counts if each is not None]
        tasks, demand = found.hear(lambda: _tasks(request, definition, known)) or ([], None)
    found.raise_any()
    partitions = None if None in counts else sum(each or 0 for each in counts)
    reading = sum(tasks[: len(planned.streams)]) if tasks else 0
    text = explain(
        planned.pipelines,
        sink=sink.description,
        partitions=partitions,
        readers=reading or (partitions or 0),
        epoch_interval_ms=planned.interval_ms,
        delivery=sink.driver.delivery,
        needs="" if demand is None else demand.needed,
    )
    url = None if checkpoint is None else checkpoint.url
    data = {
        "run_by": "engine",
        "pipelines": [
            {
                "origin": origin(number, each),
                "steps": list(each.descriptions),
                "sends_to": None if each.exchange is None else each.exchange.stage,
                "tasks": tasks[number] if tasks else None,
            }
            for number, each in enumerate(planned.pipelines)
        ],
        "columns": {field.name: sql_name(field.type) for field in _written(planned)},
        "sink": sink.description,
        "partitions": partitions,
        "epoch_interval_ms": planned.interval_ms,
        "delivery": sink.driver.delivery,
        "checkpoint": url,
    }
    where = "temporary" if checkpoint is None else checkpoint.url
    return Explanation(f"{text}Checkpoint {where}", data)


def _written(planned: PlannedQuery) -> pa.Schema:
    return next(each.schema for each in planned.pipelines if each.exchange is None)


def _nothing() -> OverlayStorage:
    """Where a checkpoint would be that is made when the query starts."""
    return OverlayStorage(LocalStorage("."), lambda name: False)


def _count(definition: QueryDefinition) -> list[int | None]:
    """The partitions of each stream, where the query would go on or begin; None if asking would
    begin something: a session, a slot."""
    storage = definition.checkpoint.storage
    committed = definition.checkpoint.committed_offsets()
    counts: list[int | None] = []
    for index, stream in enumerate(definition.streams):
        reader = stream.reader
        if not reader.keepsCommitted:
            counts.append(None)
            continue
        if reader.keepsLog:
            reader.openLog(storage, first_offsets_folder(index))
        known = None if committed is None or index >= len(committed) else committed[index]
        start = where_to_start(storage, index, reader, known)
        counts.append(len(reader.partitions(start)))
    return counts


def _tasks(
    request: WriteRequest, definition: QueryDefinition, counts: list[int]
) -> tuple[list[int], Demand]:
    """How many each pipeline has, and the slots that they need.

    :raises NotEnoughSlotsError: there are fewer, and will be no more.
    """
    from engine.spark.executor_launcher import SparkLauncher

    options, launcher = definition.options, SparkLauncher(request.df.sparkSession)
    slots = launcher.slots()
    total = None if slots is None else slots.total
    sharing = TaskSharing(
        options.partitions_per_task,
        options.slots_to_keep_free,
        definition.sink.driver.task_slots,
    )
    asked = wanted_reducers(definition.checkpoint.storage) if definition.keeps_state else None
    reducers = definition.reducers(sum(counts), options.key_groups or KEY_GROUPS, asked)
    split = Counter(n for n, _ in sharing.split(counts, total, reducers))
    demand = sharing.demand
    if slots is not None and slots.total < demand.slots and not launcher.supply.grows:
        raise NotEnoughSlotsError(
            f"The query {demand}, and there are {slots.total}.",
            hint="Add cores: spark.master local[N].",
            free=slots.free,
        )
    return [split[number] for number in range(len(definition.pipelines))], demand


def _explain_sparks(request: WriteRequest) -> Explanation:
    """Of a query that is handed to Spark.

    :raises ConfigError: as its start would, by all that is told before the sink is made.
    """
    handed_query(request)
    df = request.df
    jvm, as_written = df.sparkSession._jvm, df._jdf.queryExecution()
    assert jvm is not None
    # Spark looks whether the plan is a stream's before names in SQL are resolved: it sees none.
    state = df._jdf.sparkSession().sessionState()
    execution = state.executePlan(as_written.analyzed(), as_written.mode())
    plan = str(jvm.PythonSQLUtils.explainString(execution, "simple"))
    trigger = f"{request.trigger_kind}={request.trigger_value}"
    data = {
        "run_by": "spark",
        "trigger": {request.trigger_kind: request.trigger_value},
        "sink": request.sink_format,
        "plan": plan,
    }
    return Explanation(f"Spark itself runs this query, trigger({trigger}).\n{plan}", data)
