"""What a start has to settle once it holds the lease, before it looks at the logs."""

from __future__ import annotations

import logging
from typing import Any

from engine.base.json_text import dump, load_object
from engine.checkpoint.fingerprint_file import read_fingerprint, write_fingerprint
from engine.checkpoint.first_offsets import forget_first_offsets
from engine.checkpoint.lease import Lease
from engine.checkpoint.rewind import finish_rewind, sink_context, was_rewound
from engine.checkpoint.sink_context import BoundContext
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.checkpoint.whose_state import refuse_sparks_state
from engine.errors import ConfigError
from engine.execution.definition import QueryDefinition
from engine.pipeline.fingerprint import compare, fingerprint, without_tuning
from engine.pipeline.identity import Change
from engine.sinks.contract import EXACTLY_ONCE

logger = logging.getLogger(__name__)
_PROVED = "control/storage"


def admit(definition: QueryDefinition, lease: Lease) -> BoundContext:
    """Refuse storage that cannot keep the sink's promise, and a query that is another one than the
    checkpoint's; tell the sink whose epochs it gets; finish a rewind that was interrupted.

    :returns: what the sink was told.
    :raises ConfigError: the query must not run on this checkpoint; nothing has changed.
    :raises CheckpointError: the checkpoint cannot be read or written.
    """
    checkpoint, sink = definition.checkpoint, definition.sink.driver
    storage = checkpoint.storage
    context: BoundContext
    proved, old, context = storage.together(
        lambda: _what_was_proved(storage),
        lambda: read_fingerprint(storage),
        lambda: sink_context(checkpoint, lease),
    )
    if old is None or definition.keeps_state:  # else it was of a query without state before
        refuse_sparks_state(checkpoint)
    if proved != storage.identity:
        _prove_storage(storage, sink.delivery)
    _check_fingerprint(definition, lease, old)
    if sink.bind is not None:
        sink.bind(context)
    if finish_rewind(checkpoint, lease, sink.rewindable):
        context = sink_context(checkpoint, lease)
        if sink.bind is not None:
            sink.bind(context)
    if sink.after_rewind is not None and was_rewound(checkpoint):
        lease.check()
        sink.after_rewind(max(checkpoint.offsets.ids(), default=-1))
    return context


def _what_was_proved(storage: Storage) -> Any:
    """With what the storage of this checkpoint was tried, None if it never was or was not noted."""
    try:
        return load_object(storage.read(_PROVED)).get("provedWith")
    except (FileNotFoundError, ValueError):
        return None


def _prove_storage(storage: Storage, delivery: str) -> None:
    """Once per checkpoint, and again when what speaks to the storage has changed."""
    try:
        prove_create_if_absent(storage)
    except ConfigError as exc:
        if delivery == EXACTLY_ONCE:
            raise ConfigError(
                f"The query cannot run {EXACTLY_ONCE}: {exc.message}", hint=exc.hint
            ) from exc
        logger.warning("two runs at once would not be noticed: %s", exc)
        return
    proved = {"createIfAbsent": True, "provedWith": storage.identity}
    storage.replace(_PROVED, dump(proved).encode())


def _forget_where_it_began(definition: QueryDefinition, lease: Lease) -> None:
    """The user has put other sources in the place of those that the checkpoint knows: where those
    began says nothing of these, unless epochs are logged: these are finished, or run again from
    there, and what follows goes on from their offsets."""
    checkpoint = definition.checkpoint
    if not checkpoint.offsets.ids():
        lease.check()
        forget_first_offsets(checkpoint.storage, len(definition.streams))


def refuse_changed_query(definition: QueryDefinition) -> None:
    """As :func:`admit` does, for who has no lease yet.

    :raises ConfigError: it is not the checkpoint's query.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    old = read_fingerprint(definition.checkpoint.storage)
    if old is not None:
        _changes(definition, old, _fingerprint(definition))


def _fingerprint(definition: QueryDefinition) -> dict[str, Any]:
    sink = definition.sink
    return fingerprint(
        [(stream.pipeline, stream.reader.tuningOptions) for stream in definition.streams],
        definition.stages,
        sink_format=sink.format,
        sink_options=sink.options,
        sink_tuning=sink.driver.tuning_options,
    )


def _changes(definition: QueryDefinition, old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """What the query may go on with, or the user has allowed.

    :raises ConfigError: it is another one.
    """
    tuning = [stream.reader.tuningOptions for stream in definition.streams]
    sink_tuning = definition.sink.driver.tuning_options
    changes = list(compare(without_tuning(old, tuning, sink_tuning), new))
    unsafe = [change for change in changes if not change.is_safe]
    if unsafe and not definition.options.allow_changed_query:
        listed = "; ".join(map(str, unsafe))
        raise ConfigError(
            f"This is not the query that {definition.checkpoint.storage.url} belongs to. "
            f"Changed: {listed}.",
            hint="Start it with a checkpoint of its own. If you know that it may go on from "
            'this one, set option("allowChangedQuery", "true").',
        )
    return changes


def _check_fingerprint(
    definition: QueryDefinition, lease: Lease, old: dict[str, Any] | None
) -> None:
    new = _fingerprint(definition)
    if old is not None:
        changes = _changes(definition, old, new)
        for change in changes:
            logger.log(
                logging.INFO if change.is_safe else logging.WARNING,
                "the query has changed: %s",
                change,
            )
        if not changes and old == {**old, **new}:  # it may have secrets that are hidden by now
            return
        if any(change.part.startswith("source") for change in changes if not change.is_safe):
            _forget_where_it_began(definition, lease)
    lease.check()
    write_fingerprint(definition.checkpoint.storage, new)
