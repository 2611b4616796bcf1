"""Columns that no later stage uses are not exchanged, and no state holds them.

Source: Spark's ``ColumnPruning``.
"""

from __future__ import annotations

from dataclasses import replace

from engine.pipeline.pipeline import Pipeline
from engine.pipeline.pruning import needed_of_source, prune_to


def prune_stages(pipelines: tuple[Pipeline, ...]) -> tuple[Pipeline, ...]:
    """The same query with narrower exchanges; what it reads stays."""
    done = list(pipelines)
    for number in reversed(range(len(done))):
        stage = done[number].stage
        if stage is None:
            continue
        needed = [sorted(each) for each in needed_of_source(done[number])]
        done[number] = prune_to(done[number], needed)
        for side, senders in enumerate(stage.senders):
            for sender in senders:
                done[sender] = _sending(done[sender], needed[side])
    return tuple(done)


def _sending(pipeline: Pipeline, columns: list[int]) -> Pipeline:
    """Only these columns are sent."""
    exchange = pipeline.exchange
    assert exchange is not None, "it sends"
    places = {old: new for new, old in enumerate(columns)}
    narrow = prune_to(pipeline, None, columns)
    keys = tuple(places[key] for key in exchange.keys)
    return replace(narrow, exchange=replace(exchange, keys=keys))
