"""Transactions that another process has left open: what they are, and how they are ended.

librdkafka ends only those of its own process. This asks the transaction's coordinator itself, by
kafka-python: DescribeTransactions (KIP-664) and EndTxn (KIP-98).
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.clients.kafka import MISSING, SERVERS
from engine.errors import ConfigError, SinkError, SinkUnavailableError

END_TXN_VERSION_MAX: Final = 4
"""From version 5 on the broker gives the producer a new epoch with each end, of which the producer
that goes on with the id would not know."""
OPEN: Final = "Ongoing"
COMMITTED: Final = "CompleteCommit"
COMMITTING: Final = "PrepareCommit"
_TRY_S: Final = 30.0
_PAUSE_S: Final = 0.01
# Error codes of the protocol.
_OK: Final = 0
_MOVED: Final = frozenset({14, 15, 16})  # the coordinator loads, is not there, or is another
_STILL_ENDING: Final = 51
_NOT_ITS_OWN: Final = frozenset({47, 48, 49, 90})  # epoch, state or id do not fit, or it is fenced


@dataclass(frozen=True)
class Described:
    """What the coordinator says of a transactional id.

    :param state: of its last transaction, as Kafka names it.
    """

    producer_id: int
    producer_epoch: int
    state: str


class KafkaTransactions:
    """A connection to the coordinators. Not for several threads.

    :param client: settings of librdkafka.
    :raises ConfigError: kafka-python is not installed, or cannot use these settings.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = dict(client)
        self._admin: Any = None

    def describe(self, ids: Collection[str]) -> dict[str, Described]:
        """What there is of these transactional ids; those that are not known are left out.

        :raises SinkUnavailableError: no coordinator answers.
        """
        from kafka.errors import TransactionalIdNotFoundError

        try:
            found = self._asked(lambda admin: admin.describe_transactions(list(ids)))
        except TransactionalIdNotFoundError:
            if len(ids) == 1:
                return {}
            return {each: one for id in ids for each, one in self.describe([id]).items()}
        return {
            id: Described(each.producer_id, each.producer_epoch, each.state.value)
            for id, each in found.items()
        }

    def end(self, id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> bool:
        """End a transaction. Again is fine.

        :return: False if it is not open any more, and was not ended like this: it has timed out,
            or somebody else has the id.
        :raises SinkUnavailableError: no coordinator answers.
        """
        from kafka.protocol.producer import EndTxnRequest

        request = EndTxnRequest(
            transactional_id=id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=commit,
            max_version=END_TXN_VERSION_MAX,
        )
        deadline_s = time.monotonic() + _TRY_S
        while True:
            # Not sent again if no answer comes: it may arrive late, when the id has another
            # transaction. A restart takes the id with a new epoch first.
            code = self._asked(lambda admin: _send(admin, id, request)).error_code
            if code == _OK:
                return True
            if code in _NOT_ITS_OWN:
                return False
            if code != _STILL_ENDING and code not in _MOVED:
                raise SinkError(self._says(f"transaction {id} cannot be ended: error {code}"))
            if time.monotonic() > deadline_s:
                raise SinkUnavailableError(self._says(f"transaction {id} cannot be ended now"))
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Release the connection."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _asked(self, question: Callable[[Any], Any]) -> Any:
        from kafka.errors import KafkaError

        try:
            if self._admin is None:
                self._admin = _connect(self._client)
            return question(self._admin)
        except KafkaError as exc:
            self.close()
            what = f"the coordinator of transactions does not answer: {type(exc).__name__}: {exc}"
            raise SinkUnavailableError(self._says(what)) from exc

    def _says(self, what: str) -> str:
        return f"Kafka at {self._client[SERVERS]}: {what}"


def _send(admin: Any, id: str, request: Any) -> Any:
    """Ask the coordinator of a transactional id. kafka-python has no public call for EndTxn."""
    from kafka.protocol.metadata import CoordinatorType

    async def ask() -> Any:
        found = await admin._find_coordinator_ids([id], key_type=CoordinatorType.TRANSACTION)
        return await admin._manager.send(request, node_id=found[id])

    return admin._manager.run(ask)


def _connect(client: Mapping[str, str]) -> Any:
    """kafka-python's client, by librdkafka's settings.

    :raises ConfigError: it is not installed, or cannot use these settings.
    """
    try:
        from kafka import KafkaAdminClient
    except ImportError as exc:
        raise ConfigError(
            "Transactions of Kafka need kafka-python, which is not installed.", hint=MISSING
        ) from exc
    settings: dict[str, Any] = {
        theirs: client[ours] for ours, theirs in _SETTINGS.items() if ours in client
    }
    settings["security_protocol"] = client.get("security.protocol", "PLAINTEXT").upper()
    if "SSL" in settings["security_protocol"]:
        settings["ssl_context"] = _tls(client)
    if client.get("sasl.oauthbearer.method") == "oidc":
        raise ConfigError(
            "Exactly-once delivery to Kafka cannot log in by OAUTHBEARER yet.",
            hint="Use SCRAM or mutual TLS, or delivery at-least-once.",
        )
    return KafkaAdminClient(**settings)


_SETTINGS: Final = {
    SERVERS: "bootstrap_servers",
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=client.get("ssl.ca.location"), cadata=client.get("ssl.ca.pem")
    )
    if client.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if client.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if "ssl.certificate.location" in client:
        context.load_cert_chain(
            client["ssl.certificate.location"],
            client.get("ssl.key.location"),
            client.get("ssl.key.password"),
        )
    elif "ssl.certificate.pem" in client or "ssl.keystore.location" in client:
        raise ConfigError(
            "Exactly-once delivery to Kafka needs the client's certificate in files.",
            hint="Set kafka.ssl.certificate.location and kafka.ssl.key.location (PEM).",
        )
    return context
