"""``explain``: the plan of a query that is not started."""

from __future__ import annotations

from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

from engine.commands.brief_session import brief_session
from engine.commands.result import Result
from engine.commands.run_query import prints_go_to_stderr
from engine.commands.specified_logs import log_as_specified
from engine.query.spec import QuerySpec, build, load_spec


def explain(args: Namespace) -> Result:
    """What the query reads, does and writes, on how many tasks, with which guarantee."""
    spec = load_spec(Path(args.spec))
    log_as_specified(spec, args.log_format)
    with prints_go_to_stderr() if args.json else nullcontext():
        return _explain(spec)


def _explain(spec: QuerySpec) -> Result:
    with brief_session(spec.conf, spec.name or "explain", spec.python_path) as spark:
        from engine.query.explanation import explain_query

        found = explain_query(build(spec, spark))
        return Result(found.data, found.text)
