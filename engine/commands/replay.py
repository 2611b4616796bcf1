"""``replay``: run an epoch again beside its query, and look into it."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.options import EngineOptions
from engine.commands.brief_session import brief_session
from engine.commands.result import Result
from engine.commands.run_query import prints_go_to_stderr
from engine.commands.specified_logs import log_as_specified
from engine.commands.status import open_checkpoint
from engine.errors import ConfigError
from engine.query.spec import QuerySpec, build, load_spec
from engine.query.spec.own_modules import import_instead

if TYPE_CHECKING:
    from engine.query.writer import ContinuousStreamWriter


def replay(args: Namespace) -> Result:
    """What came into the epoch, what each step made of it, and what went out."""
    spec = load_spec(Path(args.spec), is_needed=_is_looked_at)
    log_as_specified(spec)
    other = None if args.changed is None else load_spec(Path(args.changed), is_needed=_is_looked_at)
    if other is not None:
        _refuse_other_session(spec, other)
    if not spec.checkpoint_storage:
        open_checkpoint(args.checkpoint)  # before Spark starts
    with prints_go_to_stderr() if args.json else nullcontext():
        return _replay(args, spec, other)


def _is_looked_at(path: str) -> bool:
    """The sink is not, and among its options those of the engine are."""
    head, _, option = path.partition("sink.options.")
    return bool(head) or not option or EngineOptions.has(option)


def _refuse_other_session(spec: QuerySpec, other: QuerySpec) -> None:
    if spec.conf != other.conf:
        raise ConfigError(
            "The conf of the two specifications differs, and they are run in one session.",
            hint="Give both the same conf.",
        )


def _replay(args: Namespace, spec: QuerySpec, other: QuerySpec | None) -> Result:
    path = [*spec.python_path, *(() if other is None else other.python_path)]
    with brief_session(spec.conf, f"replay of epoch {args.epoch}", path) as spark:
        known = list(sys.modules)

        def build_changed(changed: QuerySpec) -> ContinuousStreamWriter:
            import_instead(changed.python_path, spec.python_path, known)
            return build(changed, spark)

        from engine.query.replay import replay_epoch

        found = replay_epoch(
            args.checkpoint,
            args.epoch,
            build(spec, spark),
            changed=None if other is None else partial(build_changed, other),
            rows=args.rows,
        )
        return Result(found.to_dict(), str(found))
