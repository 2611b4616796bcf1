"""Pipelines in the making: what has become of each stream and each stage of a query so far.

A node that keeps state cuts: what was below it sends its rows to a new stage, and the steps that
follow are steps of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

from engine.pipeline.pipeline import Pipeline, SourceRelation, Step
from engine.pipeline.stateful import Exchange, Exchanged, StatefulStep


@dataclass(frozen=True)
class Input:
    """One side of what a stage gets.

    :param drafts: those that send.
    :param schema: of their rows.
    :param keys: positions of the columns whose rows have to meet.
    """

    drafts: tuple[Draft, ...]
    schema: pa.Schema
    keys: tuple[int, ...]


@dataclass(eq=False)
class Draft:
    """One pipeline.

    :param source: None for a stage, which reads ``inputs``.
    :param watermark_lag_ms: see :attr:`engine.pipeline.pipeline.Pipeline.watermark_lag_ms`; None:
        no watermark has been defined for its rows.
    :ivar holds_back_ms: how far the watermark of its rows is behind that of its inputs; None: they
        have none.
    :ivar sends: the stage that its rows go to, the side there, and the exchange's keys.
    """

    source: SourceRelation | None
    inputs: tuple[Input, ...] = ()
    watermark_lag_ms: int | None = None
    steps: list[Step] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)
    holds_back_ms: int | None = 0
    sends: tuple[Draft, int, Input] | None = None

    @property
    def keeps_state(self) -> bool:
        """Whether one of its steps remembers something."""
        return any(isinstance(step, StatefulStep) for step in self.steps)

    @property
    def rows_lag_ms(self) -> int | None:
        """How far the watermark of its rows is behind the query's."""
        if self.watermark_lag_ms is None or self.holds_back_ms is None:
            return None
        return self.watermark_lag_ms + self.holds_back_ms


class Drafts:
    """All of a query."""

    def __init__(self) -> None:
        self.sources: list[Draft] = []
        self.stages: list[Draft] = []
        self.redefines_watermark = False
        """Whether a watermark was defined for rows that had one."""
        self._operators = count()
        self._watermarks = count()

    @property
    def keep_state(self) -> bool:
        """Whether anything is remembered."""
        return any(draft.keeps_state for draft in (*self.sources, *self.stages))

    def source(self, relation: SourceRelation) -> Draft:
        """Begin a pipeline that reads a stream."""
        draft = Draft(relation)
        self.sources.append(draft)
        return draft

    def stage(self, *inputs: Input) -> Draft:
        """Begin a pipeline that reads what others send."""
        lags = [
            draft.rows_lag_ms
            for each in inputs
            for draft in each.drafts
            if draft.rows_lag_ms is not None
        ]
        draft = Draft(None, inputs, max(lags, default=None))
        for side, each in enumerate(inputs):
            for sender in each.drafts:
                assert sender.sends is None, "rows go to one stage"
                sender.sends = (draft, side, each)
        self.stages.append(draft)
        return draft

    def operator_name(self, kind: str) -> str:
        """A name for a step with state: the same for the same query, at every start."""
        return f"{kind}-{next(self._operators)}"

    def watermark(self, drafts: Sequence[Draft]) -> int:
        """The number of a watermark that is defined for the rows of these."""
        for draft in drafts:
            self.redefines_watermark |= draft.rows_lag_ms is not None
            draft.watermark_lag_ms = draft.holds_back_ms = 0
        return next(self._watermarks)

    def pipelines(self, schema: pa.Schema, **common: Any) -> tuple[Pipeline, ...]:
        """The query's, as :class:`~engine.pipeline.pipeline.Pipeline` orders them.

        :param schema: of the rows that nobody sends on: they reach the sink.
        :param common: what all of them have.
        """
        drafts = [*self.sources, *self.stages]
        numbers = {draft: number for number, draft in enumerate(drafts)}
        return tuple(_pipeline(draft, schema, numbers.__getitem__, common) for draft in drafts)


def _pipeline(
    draft: Draft, schema: pa.Schema, number: Callable[[Draft], int], common: dict[str, Any]
) -> Pipeline:
    exchange = None
    if draft.sends is not None:
        stage, side, sent = draft.sends
        exchange, schema = Exchange(number(stage), sent.keys, side), sent.schema
    source: SourceRelation | Exchanged | None = draft.source
    if source is None:
        sides = tuple(each.schema for each in draft.inputs)
        senders = tuple(tuple(map(number, each.drafts)) for each in draft.inputs)
        source = Exchanged(sides, senders)
    return Pipeline(
        source=source,
        steps=tuple(draft.steps),
        schema=schema,
        descriptions=tuple(draft.descriptions),
        exchange=exchange,
        watermark_lag_ms=draft.watermark_lag_ms or 0,
        **common,
    )
