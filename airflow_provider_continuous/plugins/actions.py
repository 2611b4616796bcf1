"""What people may do to a query from its page: end it, keep epochs of it, clear up behind it.

``POST /act/<action>?at=LOCATION`` with a JSON object. The header :data:`HEADER` must be there: a
page of another site cannot send it without asking first, so nobody's login is abused. Where a
browser says which site asks, it must be this one. Whoever may not act gets 403, whoever may not
even see the query 404.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, HTTPException

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL, StorageHangsError
from airflow_provider_continuous.plugins.access import Person, Viewer
from airflow_provider_continuous.plugins.formats import size
from airflow_provider_continuous.plugins.locations import Location
from airflow_provider_continuous.view.known import KnownQuery
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.pins import Pin, get_pin
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import check_later, find_target
from engine.checkpoint.rewindable import RewindableSink
from engine.checkpoint.standing_by import may_be_asked, refuse_untold
from engine.errors import ConcurrentRunError, ConfigError, ContinuousError
from engine.redaction.logs import redact
from engine.redaction.texts import encodable
from engine.sinks.reopen import recorded_sink

log = logging.getLogger(__name__)

HEADER = "X-Continuous-Action"
ANSWER_MAX_S = 60.0
"""What takes longer, as pruning of very many files does, is not waited for; it goes on."""

Answer = dict[str, Any]
Asked = dict[str, Any]


def add_actions(
    app: FastAPI,
    visible: Callable[[Viewer, str], KnownQuery],
) -> None:
    """Add the route.

    :param visible: finds a query that this person may see, or answers 404.
    """

    @app.post("/act/{action}")
    def act(
        action: str,
        at: Location,
        person: Person,
        asked: Annotated[Asked, Body()],
        guard: Annotated[str | None, Header(alias=HEADER)] = None,
        site: Annotated[str | None, Header(alias="Sec-Fetch-Site")] = None,
    ) -> Answer:
        if guard is None or site not in (None, "same-origin", "none"):
            raise HTTPException(403, f"Another site has asked, or the header {HEADER} is missing.")
        query = visible(person, at)
        if not person.may_act(query):
            raise HTTPException(403, "You may not edit all DAGs that have told of this query.")
        if action not in _ACTIONS:
            raise HTTPException(404, f"There is no action {action!r}.")
        try:
            answer = _in_time(query.location, action, asked, person.name)
        except ConcurrentRunError as error:
            raise HTTPException(409, redact(str(error))) from None
        except ConfigError as error:
            raise HTTPException(400, redact(str(error))) from None
        except ContinuousError as error:
            raise HTTPException(502, redact(str(error))) from None
        where = encodable(query.location)
        log.info("%s, by %s on %s: %s", action, person.name, where, answer["message"])
        return answer


def _in_time(location: str, action: str, asked: Asked, by: str) -> Answer:
    """By a thread of the pool: none of the api-server waits for a storage that hangs."""

    def do() -> Answer:
        return _ACTIONS[action](CheckpointHook(location), asked, by)

    place, key = place_of(location), (location, action, json.dumps(asked, sort_keys=True), by)
    try:
        return POOL.within(place, do, ANSWER_MAX_S, key)
    except StorageHangsError as error:
        text = f"{action} has not ended within {ANSWER_MAX_S:g} s, and goes on: look what it does."
        raise HTTPException(504, redact(f"{text} {error}")) from None


def _drain(hook: CheckpointHook, asked: Asked, by: str) -> Answer:
    return _ask_to_end(hook, "drain", asked, by)


def _stop(hook: CheckpointHook, asked: Asked, by: str) -> Answer:
    return _ask_to_end(hook, "stop", asked, by)


def _ask_to_end(hook: CheckpointHook, what: Any, asked: Asked, by: str) -> Answer:
    """Of the run that the person has seen, and of no later one."""
    status = hook.status()
    refuse_untold(hook.location.url, status.state)
    if not may_be_asked(hook.checkpoint.storage, status.state):
        raise HTTPException(409, f"No run holds the checkpoint: the query is {status.state}.")
    if asked.get("run_id") not in (None, status.run_id):
        raise HTTPException(409, "Another run has taken over meanwhile. Look again.")
    hook.checkpoint.requests.ask(what, by=f"{by}, on Airflow's page", run_id=status.run_id)
    if status.state is QueryState.LOST:
        return {"message": f"The run is lost; its standby was asked to {what} the query."}
    ends = "finishes its open epochs and ends" if what == "drain" else "ends now"
    return {"message": f"The query was asked to {what}: it {ends}."}


def _pin(hook: CheckpointHook, asked: Asked, by: str) -> Answer:
    pin = hook.pin(str(asked.get("name") or ""), _whole(asked, "epoch"))
    return {"message": f"Epoch {pin.epoch} is pinned as {pin.name}.", "pin": pin.to_dict()}


def _unpin(hook: CheckpointHook, asked: Asked, by: str) -> Answer:
    name = str(asked.get("name") or "")
    hook.unpin(name)
    return {"message": f"The pin {name} is removed."}


def _prune(hook: CheckpointHook, asked: Asked, by: str) -> Answer:
    keep = _whole(asked, "keep_epochs")
    if keep is None:
        raise ConfigError("keep_epochs is missing.", hint="Say how many epochs are to stay.")
    report = hook.prune(keep, dry_run=_is_dry(asked))
    verb = "would be removed" if report.dry_run else "were removed"
    left = "" if report.kept_from is None else f" Epochs from {report.kept_from:,} on stay."
    return {
        "message": f"{count(report.removed_epochs, 'epoch')}, "
        f"{count(report.removed_files, 'file')}, {size(report.removed_bytes)} {verb}.{left} "
        "Pins stay.",
        "report": report.to_dict(),
    }


def _rewind(hook: CheckpointHook, asked: Asked, by: str) -> Answer:
    epoch, name = _whole(asked, "to_epoch"), asked.get("to_pin")
    if (epoch is None) == (name is None):
        raise ConfigError(
            "A rewind goes to an epoch or to a pin.", hint="Say one of the two: to_epoch or to_pin."
        )
    target = get_pin(hook.checkpoint.storage, str(name)) if epoch is None else epoch
    if not _is_dry(asked):
        report = hook.rewind(
            epoch,
            to_pin=target.name if isinstance(target, Pin) else None,
            expected_epoch=_whole(asked, "expected_epoch"),
        )
        return {
            "message": f"Rewound from epoch {report.from_epoch:,} to {report.to_epoch:,}; the next "
            f"start goes on at {report.to_epoch + 1:,}.",
            "report": report.to_dict(),
        }
    status = hook.status()
    if status.state.is_active:
        raise HTTPException(409, f"The query is {status.state}: drain it first.")
    return _undoing(hook, find_target(hook.checkpoint, target), status.epoch)


def _undoing(hook: CheckpointHook, target: Pin, committed: int) -> Answer:
    """What a rewind would undo; epochs that are pruned, behind a pin, go as well."""
    undone = committed - target.epoch
    epochs = f"{count(undone, 'epoch')} would be undone"
    if undone:
        epochs += f", {target.epoch + 1:,}" + (f" to {committed:,}" if undone > 1 else "")
    rows = _of_their_rows(hook.checkpoint, target)
    pins = [pin.name for pin in hook.checkpoint.pinned_epochs() if pin.epoch > target.epoch]
    lost = f" The pins {', '.join(pins)} go with them." if pins else ""
    return {
        "message": f"{epochs}. {rows}{lost}",
        "report": {
            "from_epoch": committed,
            "to_epoch": target.epoch,
            "undone": undone,
            "pins": pins,
            "dry_run": True,
        },
    }


def _of_their_rows(checkpoint: Checkpoint, target: Pin) -> str:
    """What becomes of the rows of later epochs."""
    sink = RewindableSink.of(recorded_sink(checkpoint))
    try:
        check_later(checkpoint, target, sink)
    except ConfigError as error:
        return f"The rewind will be refused: {redact(str(error))}"
    if sink.rewind is None:
        return "The sink cannot take rows back from here: the rewind will be refused."
    if sink.keeps_rows:
        return "The sink keeps their rows, and writes over them when they come again."
    return "The sink takes their rows back."


_ACTIONS: dict[str, Callable[[CheckpointHook, Asked, str], Answer]] = {
    "drain": _drain,
    "stop": _stop,
    "pin": _pin,
    "unpin": _unpin,
    "prune": _prune,
    "rewind": _rewind,
}


def _whole(asked: Asked, name: str) -> int | None:
    value = asked.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ConfigError(f"{name} is {value!r}, and not a whole number.")


def _is_dry(asked: Asked) -> bool:
    """Only who says so changes anything."""
    return asked.get("dry_run") is not False
