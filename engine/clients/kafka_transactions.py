"""Transactions that another process has left open: what they are, and how they are ended.

librdkafka ends only those of its own process. This asks the transactions' coordinators itself, by
kafka-python: ListTransactions and DescribeTransactions (KIP-664), EndTxn and InitProducerId
(KIP-98). For the last two it has no public call: see :func:`_ask_each`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, Final

from engine.base.failpoints import reach
from engine.clients.kafka import MISSING, SERVERS
from engine.clients.kafka_tls import brokers_tls
from engine.clients.kafka_tokens import Tokens
from engine.errors import ConfigError, SinkError, SinkUnavailableError

END_TXN_VERSION_MAX: Final = 4
"""From version 5 on the broker gives the producer a new epoch with each end, of which the producer
that goes on with the id would not know."""
OPEN: Final = "Ongoing"
_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_TRY_S: Final = 30.0
_PAUSE_S: Final = 0.01
CONNECT_S: Final = 10.0
AT_ONCE: Final = 500
"""So many requests are under way at most."""
# Error codes of the protocol.
_OK: Final = 0
_NOT_THERE: Final = 15
_MOVED: Final = frozenset(
    {14, _NOT_THERE, 16}
)  # the coordinator loads, is not there, or is another
_STILL_ENDING: Final = 51
_NOT_ITS_OWN: Final = frozenset({47, 48, 49, 90})  # epoch, state or id do not fit, or it is fenced


@dataclass(frozen=True)
class Transaction:
    """One transaction, as its producer knows it.

    :param producer_epoch: who comes with an older one is fenced.
    """

    id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class Described:
    """What a coordinator says of a transactional id.

    :param newest: its last transaction.
    :param state: of that, as Kafka names it.
    """

    newest: Transaction
    state: str

    @property
    def is_open(self) -> bool:
        return self.state == OPEN

    @property
    def is_committed(self) -> bool:
        """Or will be, whatever happens."""
        return self.state in _COMMITTED


class KafkaTransactions:
    """A connection to the coordinators. Not for several threads.

    :param client: settings of librdkafka.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        # As a whole, before any part: two threads of which one began with a part would wait for one
        # another. Who lacks it is told with the first question.
        with suppress(ImportError):
            import_module("kafka")
        self._client = dict(client)
        self._tokens: Tokens | None = None
        self._admin: Any = None

    def check(self) -> None:
        """See that these settings can be used, as far as that is known without asking anybody.

        :raises ConfigError: they cannot.
        """
        brokers_tls(self._client)
        if _logs_in_by_tokens(self._client):
            Tokens(self._client)

    def ids(self, prefix: str) -> list[str]:
        """The transactional ids that begin with this, in order.

        :raises SinkUnavailableError: a broker does not answer.
        """
        listed = self._asked(lambda admin: admin.list_transactions())
        found = (each.transactional_id for part in listed.values() for each in part)
        return sorted({id for id in found if id.startswith(prefix)})

    def describe(self, ids: Collection[str]) -> dict[str, Described]:
        """What there is of these transactional ids; those that are not known are left out.

        :raises SinkUnavailableError: no coordinator answers.
        """
        from kafka.errors import TransactionalIdNotFoundError

        def ask(admin: Any) -> dict[str, Any] | None:
            try:
                found: dict[str, Any] = admin.describe_transactions(list(ids))
            except TransactionalIdNotFoundError:
                return None
            return found

        found = self._asked(ask)
        if found is None:  # one of them, and it does not say which
            known = (self.describe([id]) for id in ids) if len(ids) > 1 else ()
            return {id: each for part in known for id, each in part.items()}
        return {
            id: Described(Transaction(id, each.producer_id, each.producer_epoch), each.state.value)
            for id, each in found.items()
        }

    def end(self, transactions: Sequence[Transaction], *, commit: bool) -> list[Transaction]:
        """End transactions. Again is fine.

        :return: those that are not open any more, and were not ended like this: they have timed
            out, or somebody else has the id.
        :raises SinkUnavailableError: a coordinator does not answer: they may have been ended.
        """
        from kafka.protocol.producer import EndTxnRequest

        by_id = {each.id: each for each in transactions}

        def request(id: str) -> Any:
            each = by_id[id]
            return EndTxnRequest(
                transactional_id=id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                committed=commit,
                max_version=END_TXN_VERSION_MAX,
            )

        refused = self._until_answered(list(by_id), request, "cannot be ended")
        return [by_id[id] for id in refused]

    def fence(self, ids: Iterable[str]) -> None:
        """Abort what is open of these ids, and shut out the producers that had them.

        :raises SinkUnavailableError: a coordinator does not answer.
        """
        from kafka.protocol.producer import InitProducerIdRequest

        def request(id: str) -> Any:
            return InitProducerIdRequest(
                transactional_id=id,
                transaction_timeout_ms=round(_TRY_S * 1000),
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )

        self._until_answered(list(ids), request, "cannot be fenced")

    def close(self) -> None:
        """Release the connection."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def __del__(self) -> None:
        with suppress(Exception):  # nobody tells a sink that its query has ended
            self.close()

    def _until_answered(
        self, ids: list[str], request: Callable[[str], Any], what: str
    ) -> list[str]:
        """Ask for each id, again while its last transaction is still ending; the refused ones.

        A request that gets no answer is not sent again: it may arrive late, when the id has another
        transaction. The next attempt describes them first, and fences them before tasks go on.
        """
        deadline_s = time.monotonic() + _TRY_S
        refused: list[str] = []
        while ids:
            codes = self._asked(partial(_ask_each, ids=ids, request=request))
            again = []
            for id, code in codes.items():
                if code in _NOT_ITS_OWN:
                    refused.append(id)
                elif code == _STILL_ENDING or code in _MOVED:
                    again.append(id)
                elif code != _OK:
                    raise SinkError(self._says(f"transaction {id} {what}: error {code}"))
            if again and time.monotonic() > deadline_s:
                raise SinkUnavailableError(self._says(f"transaction {again[0]} {what} now"))
            if again:
                threading.Event().wait(_PAUSE_S)
            if _MOVED.intersection(codes.values()):
                self.close()  # it remembers who the coordinators are
            ids = again
        return refused

    def _asked(self, question: Callable[[Any], Any]) -> Any:
        from kafka.errors import KafkaError

        if self._tokens is not None and time.monotonic() >= self._tokens.good_until_s:
            self.close()  # a broker ends what was opened with a token that has expired
        try:
            if self._admin is None:
                if self._tokens is None and _logs_in_by_tokens(self._client):
                    self._tokens = Tokens(self._client)
                self._admin = _connect(self._client, self._tokens)
            return question(self._admin)
        except (KafkaError, OSError) as exc:
            self.close()
            what = f"a coordinator of transactions does not answer: {type(exc).__name__}: {exc}"
            raise SinkUnavailableError(self._says(what)) from exc

    def _says(self, what: str) -> str:
        return f"Kafka at {self._client[SERVERS]}: {what}"


def _ask_each(admin: Any, ids: Sequence[str], request: Callable[[str], Any]) -> dict[str, int]:
    """Ask the coordinator of each transactional id, all at once; the error codes.

    kafka-python's public calls do not have these requests: ``_manager`` and
    ``_find_coordinator_ids`` are not public.
    """
    from kafka.errors import CoordinatorNotAvailableError
    from kafka.protocol.metadata import CoordinatorType

    async def ask() -> dict[str, int]:
        try:
            nodes = await admin._find_coordinator_ids(ids, key_type=CoordinatorType.TRANSACTION)
        except CoordinatorNotAvailableError:  # in a cluster that has had no transaction yet
            return dict.fromkeys(ids, _NOT_THERE)
        codes: dict[str, int] = {}
        waiting = iter(ids)
        while some := list(islice(waiting, AT_ONCE)):
            answers = [(id, admin._manager.send(request(id), node_id=nodes[id])) for id in some]
            for id, answer in answers:
                codes[id] = int((await answer).error_code)
            reach("transactions.told")
        return codes

    found: dict[str, int] = admin._manager.run(ask)
    return found


def _logs_in_by_tokens(client: Mapping[str, str]) -> bool:
    mechanism = client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))
    return mechanism.strip().upper() == "OAUTHBEARER"


def _connect(client: Mapping[str, str], tokens: Tokens | None) -> Any:
    """kafka-python's client, by librdkafka's settings.

    :raises ConfigError: it is not installed, or cannot use these settings.
    :raises SinkUnavailableError: there is no token.
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
    if (tls := brokers_tls(client)) is not None:
        settings["ssl_context"] = tls
    if tokens is not None:
        tokens.token()  # whose absence would look like that of the brokers
        settings["sasl_oauth_token_provider"] = _provider(tokens)

    class Admin(KafkaAdminClient):  # type: ignore[misc]
        """One that leaves no thread behind when nobody answers."""

        def __init__(self, **settings: Any) -> None:
            self._closed = False
            try:
                super().__init__(**settings)
            except BaseException:
                with suppress(Exception):
                    self.close()
                raise

    return Admin(
        bootstrap_timeout_ms=round(CONNECT_S * 1000),
        request_timeout_ms=round(_TRY_S * 1000),
        max_in_flight_requests_per_connection=AT_ONCE + 1,
        **settings,
    )


def _provider(tokens: Tokens) -> Any:
    """What kafka-python asks for one."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens.token()

        def extensions(self) -> Mapping[str, str]:
            return tokens.extensions

    return Provider()


_SETTINGS: Final = {
    SERVERS: "bootstrap_servers",
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
