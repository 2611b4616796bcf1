"""What is asked of the brokers before a query starts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from engine.clients.kafka import CHECK, SERVERS, import_client, made_client
from engine.clients.kafka_complaints import Complaints
from engine.errors import ConfigError
from engine.sinks.kafka.records import OWNER

ASK_S: Final = 20.0
_LONGEST: Final = "transaction.max.timeout.ms"


def check_brokers(
    client: Mapping[str, str], topic: str | None, transaction_s: float | None
) -> None:
    """See that records can be written.

    :param topic: None: each row says its own.
    :param transaction_s: so long transactions may be open; None: there are none.
    :raises ConfigError: they cannot.
    """
    kafka = import_client(OWNER)
    import_module("confluent_kafka.admin")
    complaints = Complaints()
    admin = made_client(kafka.admin.AdminClient, {**client, "error_cb": complaints}, OWNER)
    servers = client[SERVERS]
    try:
        there = (
            admin.list_topics(topic, timeout=ASK_S) if topic else admin.list_topics(timeout=ASK_S)
        )
    except kafka.KafkaException as exc:
        admin.poll(0)  # the reasons are told now
        reason = str(complaints) or exc.args[0].str()
        raise ConfigError(
            f"{OWNER}: Kafka at {servers} does not answer: {reason}.",
            hint=CHECK,
        ) from exc
    if topic and (error := there.topics[topic].error) is not None:
        raise ConfigError(
            f"{OWNER}: Kafka at {servers} has no topic {topic}: {error.str()}.",
            hint="Create it, or correct the option topic.",
        )
    if transaction_s is not None:
        longest_s = _longest_transaction(kafka, admin, min(there.brokers))
        if longest_s is not None and transaction_s > longest_s:
            raise ConfigError(
                f"{OWNER}: Kafka at {servers} allows transactions of {longest_s:g} s at most "
                f"({_LONGEST}), and kafka.transaction.timeout.ms is {transaction_s * 1000:g}.",
                hint=f'Set option("kafka.transaction.timeout.ms", "{longest_s * 1000:g}").',
            )


def _longest_transaction(kafka: Any, admin: Any, broker: int) -> float | None:
    """In seconds; None if it may not be asked: then the first transaction tells."""
    wanted = kafka.admin.ConfigResource(kafka.admin.ResourceType.BROKER, str(broker))
    try:
        settings = admin.describe_configs([wanted], request_timeout=ASK_S)[wanted].result(ASK_S)
    except (kafka.KafkaException, TimeoutError):
        return None
    return float(settings[_LONGEST].value) / 1000 if _LONGEST in settings else None
