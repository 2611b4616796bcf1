"""Queries as documents: YAML, JSON or a dict. See :class:`engine.spec.query.QuerySpec`."""

from engine.spec.build import build
from engine.spec.document import read_document
from engine.spec.query import QuerySpec, SinkSpec, SourceSpec, load_spec

__all__ = ["QuerySpec", "SinkSpec", "SourceSpec", "build", "load_spec", "read_document"]
