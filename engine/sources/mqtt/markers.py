"""By what a session is known again: subscriptions to filters to which nobody publishes.

To look whether the broker has a session makes one where there is none; and if that answer is lost,
the next look finds it. It has no markers, though: whether one is there is what the answer to
UNSUBSCRIBE tells, which takes it away; so it is put back at once. Between these two a look may
break off, and there is one less. Without any a session counts as lost, so there are a few.

Not every broker tells: HiveMQ Community Edition calls each UNSUBSCRIBE a success.

Source: MQTT 5.0, OASIS, section 3.11.3: ``No subscription existed``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from engine.clients.mqtt_connection import MqttConnection
from engine.errors import ConfigError
from engine.sources.mqtt.rows import OWNER

logger: Final = logging.getLogger(__name__)
COUNT: Final = 4
"""If so many looks in turn break off just there, a loss is told that is none; never the reverse."""


def mark(connection: MqttConnection, client: str) -> bool:
    """Put the markers into a session that has none. Again is fine.

    :param client: of the session.
    :return: whether they are there, and the broker is one that tells.
    """
    (was_there,) = connection.unsubscribe([f"{client}/session/never"])
    return not was_there and mark_again(connection, client)


def take_marker(connection: MqttConnection, client: str) -> bool:
    """Whether a session has markers; one of them is gone then, until :func:`mark_again`."""
    return any(connection.unsubscribe([each])[0] for each in _markers(client))


def mark_again(connection: MqttConnection, client: str) -> bool:
    """As :func:`mark`, of a broker that is known to tell."""
    try:
        connection.subscribe(_markers(client), retained=False)
    except ConfigError as exc:
        logger.warning(
            "%s: whether the broker has lost the session of %s is not known if the first look at "
            "what is left of it breaks off: %s",
            OWNER,
            client,
            exc,
        )
        return False
    return True


def _markers(client: str) -> Sequence[str]:
    return [f"{client}/session/{number}" for number in range(COUNT)]
