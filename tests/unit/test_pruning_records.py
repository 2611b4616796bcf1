"""Columns that tell which record a row is are read, whether or not the query uses them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Pipeline, Project, SourceRelation
from engine.pipeline.pruning import pruned
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.rows import SCHEMA

COLUMNS = pa.schema(list(SCHEMA)[:-1])


@pytest.mark.parametrize("wanted", ["value", "key", "offset"])
def test_the_offset_of_a_record_is_read(wanted: str) -> None:
    source: Any = KafkaDataSource({"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"})
    place = COLUMNS.names.index(wanted)
    field = COLUMNS.field(place)
    column = Expr("Column", (), field.type, True, {"ordinal": place, "name": wanted})
    made = pa.schema([field])
    pipeline = Pipeline(SourceRelation("kafka", {}, COLUMNS), (Project((column,), made),), made)
    narrow, _ = pruned(pipeline, source.continuousReader(source.schema()))
    assert narrow.source.schema.names == ([wanted, "offset"] if wanted != "offset" else ["offset"])
    assert narrow.schema == made
