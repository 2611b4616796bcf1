"""Why Kafka's client cannot do what it should.

What is asked of librdkafka ends in "timed out" or "transport failure": a refused password, a name
that nobody knows and a port that nobody listens on look the same. The reasons are told to a
callback alone, whenever the client is polled.

Source: librdkafka's INTRODUCTION.md, "Error propagation".
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from engine.redaction.texts import redact

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

logger: Final = logging.getLogger(__name__)
_FOR_PEOPLE: Final = frozenset(
    {
        "_AUTHENTICATION", "_RESOLVE", "_SSL", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
    }
)  # fmt: skip
_KEPT: Final = 3


class Complaints:
    """What one client says of its connections: its ``error_cb``. Each reason is logged once, until
    all is well again.

    :ivar since_s: when the first came, monotonic; None if there are none.
    :ivar newest_s: when the last came.
    :ivar is_for_people: time will hardly mend it: a password, a certificate, a host's name.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self.since_s: float | None = None
        self.newest_s = 0.0
        self.is_for_people = False

    def __call__(self, error: KafkaError) -> None:
        """Take one. From any thread that polls the client."""
        reason = redact(error.str())
        self.newest_s = time.monotonic()
        if self.since_s is None:
            self.since_s = self.newest_s
        self.is_for_people = self.is_for_people or error.name() in _FOR_PEOPLE
        if error.name() == "_ALL_BROKERS_DOWN":  # tells how many, and no reason
            return
        if error.name() not in self._reasons:
            logger.warning("Kafka's client: %s", reason)
        # By its kind: the same comes again with another port or another number of milliseconds.
        self._reasons[error.name()] = reason

    def clear(self) -> None:
        """All is well."""
        self._reasons, self.since_s, self.is_for_people = {}, None, False

    def __str__(self) -> str:
        return "; ".join(list(self._reasons.values())[-_KEPT:])
