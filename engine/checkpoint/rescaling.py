"""How many tasks the stages of a query are to have, as somebody has asked for it::

    control/reducers    {"reducers":8,"by":"...","asked_at_ms":1795174660561}

It holds for every run of the query until it is asked for something else, and goes before option
``reducers``. A run that is told of it (the request ``rescale``) finishes its open epoch and goes on
with as many tasks, in place: each loads the state of its key groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.base.clock import Clock, SystemClock
from engine.base.json_text import dump, load_object
from engine.base.text_tables import count
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError, ConfigError

if TYPE_CHECKING:
    from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus

_FILE = "control/reducers"


def rescale(checkpoint: Checkpoint, reducers: int | None, by: str) -> CheckpointStatus:
    """Ask for so many tasks of each stage, now if the query runs, and whenever it starts.

    :param reducers: see :func:`want_reducers`; likewise ``by``.
    :returns: the status of before: a run that is active goes on with so many tasks in place, as
        another generation.
    :raises ConfigError: there cannot be so many, or the query keeps no state, or in Spark.
    :raises CheckpointError: the checkpoint cannot be read or written.
    """
    before = checkpoint.status()
    entry = None if before.epoch < 0 else checkpoint.offsets.get(before.epoch)
    if entry is not None and entry.is_micro_batch:
        raise ConfigError(
            f"Spark's micro-batches run the query of {checkpoint.url}: it has no stages.",
            hint="spark.sql.shuffle.partitions says in how many parts Spark keeps state, when a "
            "checkpoint begins.",
        )
    if entry is not None:
        state = EpochState.of(entry)
        groups = state.key_groups
        if groups is None:
            raise ConfigError(f"The query of {checkpoint.url} keeps no state: it has no stages.")
        if state.partitions and all(each.stage in state.partitions for each in state.handles):
            raise ConfigError(
                f"The query of {checkpoint.url} has no stages: the tasks that read keep its state.",
                hint="Option partitionsPerTask says how many there are.",
            )
        if reducers is not None and reducers > groups:
            raise ConfigError(
                f"A stage cannot have {reducers} tasks: the state in {checkpoint.url} has "
                f"{count(groups, 'key group')}, and each task needs one.",
                hint="Ask for fewer. Option keyGroups sets how many there are, for a new "
                "checkpoint.",
            )
    want_reducers(checkpoint.storage, reducers, by)
    if before.state.is_active:
        checkpoint.requests.ask("rescale", by=by, run_id=before.run_id)
    return before


def want_reducers(
    storage: Storage, reducers: int | None, by: str, clock: Clock | None = None
) -> None:
    """Ask for so many tasks of each stage.

    :param reducers: at least 1; None: what option ``reducers`` says.
    :param by: who asks.
    :raises ConfigError: there cannot be so many.
    :raises CheckpointError: the checkpoint cannot be written.
    """
    if reducers is None:
        storage.delete(_FILE)
        return
    if reducers < 1:
        raise ConfigError(f"A stage cannot have {reducers} tasks.", hint="Ask for one at least.")
    now_ms = (clock or SystemClock()).now_ms()
    wanted = {"reducers": reducers, "by": by, "asked_at_ms": now_ms}
    storage.replace(_FILE, dump(wanted).encode())


def wanted_reducers(storage: Storage) -> int | None:
    """What :func:`want_reducers` was asked for last; None: nothing.

    :raises CheckpointCorruptError: it cannot be read.
    """
    try:
        found: Any = load_object(storage.read(_FILE)).get("reducers")
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise _unreadable(storage) from exc
    if not isinstance(found, int) or found < 1:
        raise _unreadable(storage)
    return found


def _unreadable(storage: Storage) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{storage.path(_FILE)} does not say how many tasks a stage has.",
        hint="Delete it, or ask again with `continuous rescale`.",
    )
