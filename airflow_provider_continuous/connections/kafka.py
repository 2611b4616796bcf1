"""``kafka``: the extra is the configuration of librdkafka, as Airflow's Kafka provider has it."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Final

from airflow_provider_continuous.connections.fields import Fields
from engine.clients.kafka import PREFIX, SERVERS, client_settings, made_client
from engine.errors import ConfigError

logger = logging.getLogger(__name__)
_CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb", "oauth_cb", "log_cb", "on_delivery")
_OF_A_GROUP: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
    }
)
"""Where a consumer group begins and what it has read: a query's checkpoint says that."""
_PROTOCOL: Final = "security.protocol"
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_CONNECTS: Final = frozenset({SERVERS, "metadata.broker.list", _PROTOCOL})
"""Without these a client of librdkafka is made that speaks to nobody, and opens no certificate: its
file may be on the query's machine alone."""


def options(fields: Fields) -> dict[str, str]:
    """The source's and the sink's ``kafka.`` options.

    :raises ConfigError: the client does not know a setting.
    """
    found = fields.all_extras()
    fields.refuse_others("Kafka's settings are in its extra: bootstrap.servers, sasl.password ...")
    for name in _CALLBACKS:
        if name in found:
            raise fields.wrong(
                f"has {name}, a function of Python, which does not go along with a query",
                "For OAUTHBEARER set sasl.oauthbearer.method to oidc, with client id, secret and "
                "token endpoint."
                if name == "oauth_cb"
                else "Leave it out of the connection that queries use.",
            )
    left_out = sorted(_OF_A_GROUP & set(found))
    if left_out:
        logger.info(
            "%s: %s are not for %s, whose checkpoint has its offsets",
            fields.name,
            ", ".join(left_out),
            fields.owner,
        )
    settings = {f"{PREFIX}{key}": found[key] for key in found if key not in _OF_A_GROUP}
    _check(fields, settings)
    return settings


def _check(fields: Fields, settings: dict[str, str]) -> None:
    if not settings.get(f"{PREFIX}{SERVERS}", "").strip():
        raise fields.wrong(f"has no {SERVERS}", f'Its extra is like {{"{SERVERS}": "host:9092"}}.')
    client = client_settings(fields.name, settings)
    if client.get(_PROTOCOL, "plaintext").lower() not in _PROTOCOLS:
        raise fields.wrong(
            f"has the {_PROTOCOL} {client[_PROTOCOL]!r}", f"There are {', '.join(_PROTOCOLS)}."
        )
    if find_spec("confluent_kafka") is None:
        return  # the query's own Python has it, and looks
    from confluent_kafka import Producer

    told = {key: value for key, value in client.items() if key not in _CONNECTS}
    try:
        made_client(Producer, told, fields.name)
    except ConfigError as error:
        raise ConfigError(
            error.message, hint="Its extra is the configuration of librdkafka, as JSON."
        ) from None
