"""Logs of a command as the query's specification wants them."""

from __future__ import annotations

import sys

from engine.logs.json_lines import JSON, JsonFormatter, log_as_json
from engine.query.spec import QuerySpec


def log_as_specified(spec: QuerySpec, given: str | None = None) -> JsonFormatter | None:
    """Let this process log so from now on.

    :param given: the format that the command was given, in place of what the specification says.
    :returns: what each line is made by, if that is JSON; else None.
    """
    if (given or spec.log_format) != JSON:
        return None
    return log_as_json(sys.stderr, lambda: {"query": spec.name})
