"""What a start has to settle once it holds the lease, before it looks at the logs."""

from __future__ import annotations

import logging
from typing import Any

from engine.base.json_text import dump, load_object
from engine.checkpoint.fingerprint_file import read_fingerprint, write_fingerprint
from engine.checkpoint.lease import Lease
from engine.checkpoint.rewind import finish_rewind, was_rewound
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.errors import ConfigError
from engine.execution.definition import EXACTLY_ONCE, QueryDefinition
from engine.pipeline.fingerprint import compare, fingerprint
from engine.sources.contract import TUNING_OPTIONS

logger = logging.getLogger(__name__)
_PROVED = "control/storage"


def admit(definition: QueryDefinition, lease: Lease) -> None:
    """Refuse storage that cannot keep the sink's promise, and a query that is another one than the
    checkpoint's; finish a rewind that was interrupted.

    :raises ConfigError: the query must not run on this checkpoint; nothing has changed.
    :raises CheckpointError: the checkpoint cannot be read or written.
    """
    checkpoint, writer = definition.checkpoint, definition.sink.writer
    storage = checkpoint.storage
    proved, old = storage.together(
        lambda: _what_was_proved(storage), lambda: read_fingerprint(storage)
    )
    if proved != storage.identity:
        _prove_storage(storage, definition.sink.delivery)
    _check_fingerprint(definition, lease, old)
    finish_rewind(checkpoint, lease, writer)
    after_rewind = getattr(writer, "afterRewind", None)
    if after_rewind is not None and was_rewound(checkpoint):
        lease.check()
        after_rewind(max(checkpoint.offsets.ids(), default=-1))


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


def _check_fingerprint(
    definition: QueryDefinition, lease: Lease, old: dict[str, Any] | None
) -> None:
    storage, sink = definition.checkpoint.storage, definition.sink
    new = fingerprint(
        [
            (stream.pipeline, getattr(stream.reader, "tuningOptions", TUNING_OPTIONS))
            for stream in definition.streams
        ],
        sink_format=sink.format,
        sink_options=sink.options,
        sink_tuning=getattr(sink.writer, "tuningOptions", ()),
    )
    if old is not None:
        changes = compare(old, new)
        unsafe = [change for change in changes if not change.is_safe]
        if unsafe and not definition.options.allow_changed_query:
            listed = "; ".join(map(str, unsafe))
            raise ConfigError(
                f"This is not the query that {storage.url} belongs to. Changed: {listed}.",
                hint="Start it with a checkpoint of its own. If you know that it may go on from "
                'this one, set option("allowChangedQuery", "true").',
            )
        for change in changes:
            logger.log(
                logging.INFO if change.is_safe else logging.WARNING,
                "the query has changed: %s",
                change,
            )
        if not changes:
            return
    lease.check()
    write_fingerprint(storage, new)
