"""Queries as documents: YAML, JSON or a dict. See
:class:`engine.query.spec.query_spec.QuerySpec`."""

from engine.query.spec.build import build
from engine.query.spec.described import describe, is_secret, is_setting, without_secrets
from engine.query.spec.document import parse_document, read_document, read_text
from engine.query.spec.query_spec import QuerySpec, SinkSpec, SourceSpec, load_spec

__all__ = [
    "QuerySpec",
    "SinkSpec",
    "SourceSpec",
    "build",
    "describe",
    "is_secret",
    "is_setting",
    "load_spec",
    "parse_document",
    "read_document",
    "read_text",
    "without_secrets",
]
