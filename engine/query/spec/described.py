"""What a document says, part by part and without secrets: to be noted, shown and compared.

=====================  =========================================================================
part                   says
=====================  =========================================================================
source.*, sink.*       format, options, schema, watermark and so on; connections by their names
sql, query, code       ``code`` is a digest of the module that ``query`` names, if it is here
mode, conf.spark.sql.* what may change rows as well
name, trigger, conf.*  settings: how the query runs, and not what it computes
options.*              settings: the engine's own among those of the sink
=====================  =========================================================================

Options that look like secrets, or that the sink calls so, are left out, and what looks like one in
other texts is hidden, as in a fingerprint (:mod:`engine.pipeline.fingerprint`): whoever changes one
of these changes nothing here. Of a secret URL the place stays: its host, or the database.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

from engine.base.options import EngineOptions
from engine.pipeline.identity import clean_steps, identity
from engine.redaction.texts import SECRET_NAME, redact
from engine.sinks.builtin_sinks import sink_kind

_OF_ROWS: Final = "spark.sql."
_OF_SINK: Final = "sink.options."
_VARIABLE: Final = r"\$\{\w+\}"


def describe(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a valid document's parts."""
    parts: dict[str, str] = {}
    for role in ("source", "sink"):
        connector = document.get(role)
        if isinstance(connector, Mapping):
            parts |= _connector(role, connector)
    if document.get("sql") is not None:
        (parts["sql"],) = clean_steps([str(document["sql"]).strip()])
    if document.get("query") is not None:
        parts["query"] = str(document["query"])
        code = _digest_of(parts["query"], document.get("python_path") or ())
        if code is not None:
            parts["code"] = code
    for key in ("connections", "mode", "name", "trigger"):
        if document.get(key) is not None:
            parts[key] = _text(document[key])
    conf = {str(key): _text(value) for key, value in (document.get("conf") or {}).items()}
    parts |= {f"conf.{key}": value for key, value in identity(conf).items()}
    return without_secrets(parts)


def without_secrets(parts: Mapping[str, str]) -> dict[str, str]:
    """Parts, which an earlier release may have noted, without a connector's secrets."""
    kept = {part: redact(text) for part, text in parts.items() if not is_secret(part, parts)}
    url = f"{_OF_SINK}url"
    if url in parts and url not in kept:
        place = sink_kind(parts["sink.format"]).place
        found = re.fullmatch(_VARIABLE, parts[url]) or re.match(place, parts[url])
        if place and found:
            kept[url] = found[0]
    return kept


def is_secret(part: str, parts: Mapping[str, str]) -> bool:
    """Tell whether a part is an option of a connector that looks like a secret, or that the sink of
    these parts calls one."""
    role, _, option = part.partition(".options.")
    if role not in ("source", "sink"):
        return False
    kind = sink_kind(parts.get("sink.format", "") if role == "sink" else "")
    return kind.is_secret(option) or SECRET_NAME.search(option) is not None


def is_setting(part: str) -> bool:
    """Tell whether a part only says how the query runs."""
    first = part.partition(".")[0]
    if first == "conf":
        return not part.startswith(f"conf.{_OF_ROWS}")
    return first in ("name", "trigger", "options")


def _connector(role: str, connector: Mapping[str, Any]) -> dict[str, str]:
    given = {str(key): _text(value) for key, value in (connector.get("options") or {}).items()}
    own = {key: value for key, value in given.items() if role == "sink" and EngineOptions.has(key)}
    others = {key: value for key, value in given.items() if key not in own}
    parts = {
        f"{role}.{key}": _text(value)
        for key, value in connector.items()
        if key != "options" and value is not None
    }
    if f"{role}.format" in parts:
        parts[f"{role}.format"] = parts[f"{role}.format"].lower()
    parts |= {f"{role}.options.{key}": value for key, value in identity(others).items()}
    return {**parts, **{f"options.{key}": value for key, value in identity(own).items()}}


def _digest_of(query: str, python_path: Iterable[Any]) -> str | None:
    top, *names = query.partition(":")[0].split(".")
    found = PathFinder.find_spec(top, [*map(str, python_path), *sys.path])
    if found is None or found.origin is None:
        return None
    path = Path(found.origin)
    if names:
        path = path.parent.joinpath(*names).with_suffix(".py")
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping | list | tuple | bool):
        return redact(json.dumps(value, sort_keys=True, default=str))
    return str(value)
