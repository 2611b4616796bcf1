"""Reads a YAML or JSON document into a dict."""

from __future__ import annotations

import json
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from engine.errors import ConfigError

STANDARD_INPUT = Path("-")


def read_document(path: Path) -> dict[str, Any]:
    """Read a specification's file; ``-`` is standard input. JSON is YAML too.

    :raises ConfigError: the file is missing or unreadable, not YAML, or not a mapping.
    """
    return parse_document(read_text(path), path)


def read_text(path: Path) -> str:
    """Read the text of a file; ``-`` is standard input.

    :raises ConfigError: it is missing or unreadable.
    """
    try:
        return _standard_input() if path == STANDARD_INPUT else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else f"it is not UTF-8 ({exc})"
        raise ConfigError(f"{path} cannot be read: {reason}.") from exc


def _standard_input() -> str:
    """In UTF-8, as a file is, whatever the locale says."""
    binary = getattr(sys.stdin, "buffer", None)  # a text of this process has none
    return sys.stdin.read() if binary is None else binary.read().decode("utf-8")


def parse_document(text: str, path: Path) -> dict[str, Any]:
    """Read the text of a specification's file.

    :param path: the file, for errors; ``.json`` is no YAML.
    :raises ConfigError: not YAML, not a mapping, nested too deeply, or a key occurs twice or is no
        text.
    """
    language = "JSON" if path.suffix == ".json" else "YAML"
    try:
        if language == "JSON":
            content = json.loads(text, object_pairs_hook=_with_unique_keys)
        else:
            content = yaml.load(text, _UniqueKeys)  # noqa: S506  # a SafeLoader
    except ValueError as exc:  # of YAML: a date that is none
        raise ConfigError(f"{path} is not {language}: {exc}.") from exc
    except RecursionError as exc:
        raise ConfigError(
            f"{path} is not {language}: it is nested too deeply.",
            hint="A query specification has few levels: look for brackets that are not closed.",
        ) from exc.with_traceback(None)
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path} is not {language}: {_where_and_why(exc)}.") from exc
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} holds {type(content).__name__ if content is not None else 'nothing'}, not a "
            "query specification.",
            hint="It is a mapping with keys such as source, sql and sink.",
        )
    return content


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses what :func:`json.loads` would silently take the last one of."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found


class _UniqueKeys(yaml.SafeLoader):
    """YAML forbids a key to occur twice; PyYAML would silently take the last one. A key that is a
    mapping or a list no specification has: it is a template that nobody has quoted."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            problem = None
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key must be a text; quote {{ ... }}"
            elif key.value in seen:
                problem = f"the key {key.value!r} occurs twice"
            if problem is not None:
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _where_and_why(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or problem is None:
        return str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
