"""Who stands by for a query, noted in its checkpoint as long as it does::

    control/standing-by/<id>    {"host":"a","pid":7,"started":"...","since_ms":1,"seen_at_ms":2}

For people, and for whoever keeps a standby running: nothing is decided by these notes. A standby
writes its own anew every :data:`RENEWED_S`; one that was killed is left out as soon as its machine
says so, elsewhere :data:`FORGOTTEN_S` after its last word.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.base.clock import Clock, SystemClock
from engine.base.json_text import dump, load_object
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointError, ConfigError

logger = logging.getLogger(__name__)
FOLDER: Final = "control/standing-by"
RENEWED_S: Final = 10.0
FORGOTTEN_S: Final = 35.0
WATCHED_S: Final = 1.5 * RENEWED_S
"""One that goes on renews its note within that."""
_LOOK_S: Final = 1.0


@dataclass(frozen=True)
class StandingBy:
    """One standby; times in milliseconds since 1970.

    :param started: which process of that number, see :class:`engine.checkpoint.process.Process`.
    :param since_ms: when it began to wait.
    :param seen_at_ms: when it has last told so.
    """

    host: str
    pid: int
    started: str
    since_ms: int
    seen_at_ms: int

    @property
    def process(self) -> Process:
        """Whose note this is."""
        return Process(self.host, self.pid, self.started)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def standing_by(storage: Storage, clock: Clock | None = None) -> list[StandingBy]:
    """Return who stands by, those who wait longest first.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    now_ms = (clock or SystemClock()).now_ms()
    found = [
        one
        for one, runs in _told(storage).values()
        if runs or (runs is None and now_ms - one.seen_at_ms <= FORGOTTEN_S * 1000)
    ]
    return sorted(found, key=lambda one: one.since_ms)


def may_be_asked(storage: Storage, state: QueryState) -> bool:
    """Whether a run, or a standby in its place, may still end the query as it is asked to.

    :param state: of the query, as its checkpoint tells it.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    return bool(standing_by(storage)) if state is QueryState.LOST else state.is_active


def refuse_untold(where: str, state: QueryState) -> None:
    """:raises ConfigError: no run of this engine is known there that could be asked to end.

    :param where: the checkpoint.
    :param state: of the query, as its checkpoint tells it.
    """
    if state is QueryState.UNKNOWN:
        raise ConfigError(
            f"Nothing tells who runs the query of {where}: Spark's own query, started without this "
            "engine, cannot be asked from outside.",
            hint="End it by query.stop() in its own process, or start it through this engine: then "
            "it can be asked. If another query is meant, check the location.",
        )


def goes_on(storage: Storage, clock: Clock | None = None) -> bool:
    """Whether somebody stands by, also by a clock that is behind this one's: whoever is about to
    start another looks whether a note of another machine is renewed. Blocks for :data:`WATCHED_S`
    if there are such notes and none is.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    clock = clock or SystemClock()
    if standing_by(storage, clock):
        return True
    silent = _unknown(storage)
    until_s = clock.monotonic_s() + WATCHED_S
    while silent and clock.monotonic_s() < until_s:
        clock.sleep(_LOOK_S)
        now = _unknown(storage)
        if any(seen_at_ms != silent.get(name) for name, seen_at_ms in now.items()):
            return True
    return False


def _unknown(storage: Storage) -> dict[str, int]:
    """When those have told last of whom this machine knows nothing, by their notes."""
    return {name: one.seen_at_ms for name, (one, runs) in _told(storage).items() if runs is None}


def _told(storage: Storage) -> dict[str, tuple[StandingBy, bool | None]]:
    """Every note, and whether its process runs, as far as this machine knows."""
    found = {}
    for file in storage.list(FOLDER):
        try:
            told = load_object(storage.read(f"{FOLDER}/{file.name}"))
            one = StandingBy(
                str(told["host"]),
                int(told["pid"]),
                str(told["started"]),
                int(told["since_ms"]),
                int(told["seen_at_ms"]),
            )
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            continue  # it has just left, or its note is half-written: the next one comes soon
        found[file.name] = one, one.process.is_running()
    return found


class OwnNote:
    """The note of this process; storage that does not answer keeps nobody from standing by."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage, self._clock = storage, clock
        self._name = f"{FOLDER}/{uuid.uuid4()}"
        self._since_ms = clock.now_ms()
        self._written_s: float | None = None

    def tell(self) -> None:
        """Write it, unless that was done a moment ago."""
        now_s = self._clock.monotonic_s()
        if self._written_s is not None and now_s - self._written_s < RENEWED_S:
            return
        self._written_s = now_s
        process = Process.current()
        note = StandingBy(
            process.host, process.pid, process.started, self._since_ms, self._clock.now_ms()
        )
        try:
            self._storage.replace(self._name, dump(note.to_dict()).encode())
            self._forget_the_dead()
        except CheckpointError as error:
            logger.warning("that this process stands by cannot be noted: %s", error)

    def forget(self) -> None:
        """Delete it."""
        try:
            self._storage.delete(self._name)
        except CheckpointError as error:
            logger.warning("%s stays behind: %s", self._name, error)

    def _forget_the_dead(self) -> None:
        """Delete what others have left behind who were killed."""
        for file in self._storage.list(FOLDER):
            name = f"{FOLDER}/{file.name}"
            old = self._clock.now_ms() / 1000 - file.modified_s > 10 * FORGOTTEN_S
            if name != self._name and file.modified_s and old:
                self._storage.delete(name)
