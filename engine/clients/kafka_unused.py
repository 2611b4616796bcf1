"""Settings that Kafka's client takes and does not heed: those of a consumer in a producer, and the
other way round. It tells them to its log alone.

Source: librdkafka's CONFIGURATION.md, the column C/P.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from engine.clients.kafka import SERVERS, import_client, made_client

_SECURITY: Final = ("sasl.", "ssl.", "security.")
_UNUSED: Final = re.compile(r"property (\S+) is a \w+ property and will be ignored")


def unused(kind: str, settings: Mapping[str, str], owner: str) -> tuple[str, ...]:
    """Those without effect, by librdkafka's own names for them: ``request.required.acks`` for
    ``acks``. Connects to nothing.

    :param kind: ``Consumer`` or ``Producer``.
    :param owner: whose they are, for errors.
    :raises ConfigError: the client is not installed, or refuses a setting.
    """
    said = _Said()
    log = logging.Logger(__name__, logging.WARNING)
    log.addHandler(said)
    # Who logs in is no matter of either kind; and a client that fetches tokens would begin to.
    asked = {name: text for name, text in settings.items() if not name.startswith(_SECURITY)}
    asked |= {SERVERS: "", "log_level": "4"}
    client = made_client(getattr(import_client(owner), kind), asked, owner, logger=log)
    client.poll(0)  # hands on what it has logged
    if kind == "Consumer":
        client.close()
    return tuple(found[1] for text in said.texts if (found := _UNUSED.search(text)))


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
