"""Kafka's client, librdkafka, by the settings of Kafka's Java client that Spark's options hold.

Spark passes ``kafka.`` options to the Java client. Most settings have the same name in both; the
others are translated, and what cannot be is refused with what to do instead.

Source: Kafka's client documentation, librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from engine.base.connector_options import Options
from engine.clients.kafka_complaints import Complaints
from engine.errors import ConfigError, ContinuousError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

PREFIX: Final = "kafka."
MISSING: Final = "pip install 'airflow-provider-continuous[kafka]'"
SERVERS: Final = "bootstrap.servers"
CHECK: Final = (
    f"See that {PREFIX}{SERVERS} names the brokers, and that {PREFIX}security.protocol and the "
    "user are those that they want."
)
_SAME_MEANING: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "sasl.kerberos.kinit.cmd": "sasl.kerberos.kinit.cmd",
}
PAUSE: Final = "reconnect.backoff.ms"
PAUSE_MAX: Final = "reconnect.backoff.max.ms"
_PAUSES: Final = {PAUSE: "100", PAUSE_MAX: "10000"}
"""librdkafka's own."""
ONLY_JAVA: Final = frozenset(
    {
        "auto.include.jmx.reporter", "default.api.timeout.ms", "enable.metrics.push",
        "max.block.ms", "max.poll.records", "metric.reporters", "metrics.num.samples",
        "metrics.recording.level", "metrics.sample.window.ms", "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
    }
)  # fmt: skip
"""What steers the Java client's own doing and says nothing of the broker: without effect, and
whoever takes it says so."""
_JAVA_CODE: Final = frozenset(
    {
        "sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
        "sasl.login.class", "security.providers", "ssl.engine.factory.class",
    }
)  # fmt: skip
_TOKENS_FROM: Final = "sasl.oauthbearer.token.endpoint.url"
_KAFKAS_LOGIN: Final = "OAuthBearerLoginCallbackHandler"
"""Does what librdkafka does by itself: fetches a token from the endpoint."""
_LOGIN: Final = re.compile(
    r"([\w.]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_PAIR: Final = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|(\S+))")
_ESCAPED: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
"""Which letters behind a backslash mean another character. Java reads a login by its
StreamTokenizer."""


def client_settings(owner: str, options: Mapping[str, str]) -> dict[str, str]:
    """What ``kafka.`` options mean to librdkafka.

    :param owner: whose they are, for errors: ``source kafka``.
    :param options: names with the prefix, in any case; others are passed over.
    :raises ConfigError: the servers are missing, or a setting has no counterpart.
    """
    given = {
        name.lower().removeprefix(PREFIX): str(value)
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    if not given.get(SERVERS, "").strip():
        raise ConfigError(
            f"{owner} needs the option {PREFIX}{SERVERS}.",
            hint=f'Set option("{PREFIX}{SERVERS}", "host:9092").',
        )
    settings: dict[str, str] = {}
    for name, value in given.items():
        if name in ONLY_JAVA:
            continue
        settings.update(_translated(owner, name, value, given))
    if _TOKENS_FROM in settings:  # which is how Java's client knows that it is to fetch them
        settings.setdefault("sasl.oauthbearer.method", "oidc")
    return {**settings, **fitting_pause(settings, _PAUSES)}


def fitting_pause(settings: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """Of the least and the longest pause before a connection is tried again, the one that the user
    has not set, if ours contradicts the user's: librdkafka would refuse what nobody has asked for.

    :param ours: both, in milliseconds.
    """
    least, most = (settings.get(name, ours[name]).strip() for name in (PAUSE, PAUSE_MAX))
    # What is no number the client refuses by itself.
    if not (least.isdecimal() and most.isdecimal()) or int(least) <= int(most):
        return {}
    if PAUSE_MAX not in settings:
        return {PAUSE_MAX: least}
    return {} if PAUSE in settings else {PAUSE: most}


def without_effect(options: Mapping[str, str]) -> tuple[str, ...]:
    """Those ``kafka.`` options that mean nothing here."""
    return tuple(name for name in options if name.lower().removeprefix(PREFIX) in ONLY_JAVA)


def _translated(owner: str, name: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    if name in _JAVA_CODE:
        return _no_code(owner, name, value)
    if name == "sasl.jaas.config":
        return _login(owner, value)
    if name == "ssl.endpoint.identification.algorithm":
        return {name: value.strip().lower() or "none"}
    if name == "buffer.memory":
        octets = Options(owner, {f"{PREFIX}{name}": value}).integer(f"{PREFIX}{name}", 0, minimum=1)
        return {"queue.buffering.max.kbytes": str(max(octets // 1024, 1))}
    if name in ("ssl.truststore.type", "ssl.keystore.type"):
        return _store_type(owner, name, value)
    if name == "ssl.truststore.location":
        _need_pem(owner, name, given.get("ssl.truststore.type"), "ssl.ca.location")
        return {"ssl.ca.location": value}
    if name == "ssl.keystore.location" and _is_pem(given.get("ssl.keystore.type")):
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if name == "ssl.truststore.password":
        return {}
    return {_SAME_MEANING.get(name, name): value}


def _no_code(owner: str, name: str, value: str) -> dict[str, str]:
    if value.rpartition(".")[2] == _KAFKAS_LOGIN:
        return {}
    raise ConfigError(
        f"{owner} cannot run the Java class of {PREFIX}{name}, {value}: its client is librdkafka.",
        hint=f"Leave it out, and log in with {PREFIX}sasl.mechanism PLAIN, SCRAM-SHA-512 or "
        "OAUTHBEARER.",
    )


def _is_pem(kind: str | None) -> bool:
    return (kind or "JKS").strip().upper() == "PEM"


def _need_pem(owner: str, name: str, kind: str | None, instead: str) -> None:
    if not _is_pem(kind):
        raise ConfigError(
            f"{owner} cannot read the Java keystore of {PREFIX}{name}: its client is librdkafka.",
            hint="Write its certificates as PEM (keytool -exportcert -rfc), and name that file by "
            f"{PREFIX}{instead}.",
        )


def _store_type(owner: str, name: str, value: str) -> dict[str, str]:
    kind = value.strip().upper()
    if kind == "PEM" or (kind == "PKCS12" and name.startswith("ssl.keystore")):
        return {}
    raise ConfigError(
        f"{owner} cannot read keystores of type {value!r} ({PREFIX}{name}): its client is "
        "librdkafka.",
        hint=f"Use PEM files: {PREFIX}ssl.ca.location, {PREFIX}ssl.certificate.location and "
        f"{PREFIX}ssl.key.location.",
    )


def _login(owner: str, text: str) -> dict[str, str]:
    """User and password of ``sasl.jaas.config``, by the login module that they are for."""
    found = _LOGIN.match(text.strip())
    module = found[1].rpartition(".")[2] if found else ""
    pairs = {
        name: _ESCAPED.sub(_unescaped, quoted) if quoted or not bare else bare
        for name, quoted, bare in _PAIR.findall(found[2] if found else "")
    }
    if module in ("PlainLoginModule", "ScramLoginModule") and {"username", "password"} <= set(
        pairs
    ):
        return {"sasl.username": pairs["username"], "sasl.password": pairs["password"]}
    if module == "OAuthBearerLoginModule":
        known = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        return {
            "sasl.oauthbearer.method": "oidc",
            **{f"sasl.oauthbearer.{known[key]}": pairs[key] for key in known if key in pairs},
        }
    raise ConfigError(
        f"{owner} cannot log in as {PREFIX}sasl.jaas.config says, for its client is librdkafka, "
        f"which has no {module or 'such login module'}, or user and password are not named.",
        hint=f"Set {PREFIX}sasl.mechanism with {PREFIX}sasl.username and {PREFIX}sasl.password.",
    )


def _unescaped(found: re.Match[str]) -> str:
    meant = found[1]
    return chr(int(meant, 8)) if meant[0] in "01234567" else _CONTROLS.get(meant, meant)


@contextmanager
def speaking_kafka(
    unavailable: type[ContinuousError],
    final: type[ContinuousError],
    what: str,
    complaints: Complaints | None = None,
    *,
    also_passing: Collection[str] = (),
) -> Iterator[None]:
    """Errors of the client inside the block become errors of the engine.

    :param unavailable: for what time may mend.
    :param final: for what it will not.
    :param what: was tried: ``Kafka at host:9092 cannot tell the partitions of orders``.
    :param complaints: of the client: they have the reason.
    :param also_passing: see :func:`is_passing`.
    """
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as exc:
        error = exc.args[0]
        kind = unavailable if is_passing(error, also_passing) else final
        reasons = "" if complaints is None else str(complaints)
        behind = f". {reasons}" if reasons else ""
        raise kind(
            f"{what}: {error.str()} ({error.name()}){behind}.",
            hint=CHECK if complaints is not None and complaints.is_for_people else None,
        ) from exc


def is_passing(error: KafkaError, also: Collection[str] = ()) -> bool:
    """Whether time may mend it.

    :param also: names of errors that pass where it was met.
    """
    return bool(error.retriable()) or error.name() in _PASSING or error.name() in also


_PASSING: Final = frozenset(
    {
        "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_MSG_TIMED_OUT", "_RESOLVE",
        "_TIMED_OUT_QUEUE", "_DESTROY", "_WAIT_COORD", "_WAIT_CACHE", "_NODE_UPDATE",
        "REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION",
        "NETWORK_EXCEPTION", "BROKER_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR", "_AUTHENTICATION",
        "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC",
        "_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "_STATE",
        "INVALID_PRODUCER_ID_MAPPING", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL",
    }
)  # fmt: skip
"""A topic that is not known may be one that was just created; a producer that has lost its
transaction or its id, after which every call is ``_FATAL``, is replaced by a new one."""


def made_client(kind: Any, settings: Mapping[str, Any], owner: str, **rest: Any) -> Any:
    """A client of librdkafka.

    :param kind: ``Consumer``, ``Producer`` or ``AdminClient``.
    :param rest: what else it is made with.
    :raises ConfigError: it refuses a setting.
    """
    from confluent_kafka import KafkaException

    try:
        # Reasons come to error_cb. Its log, on stderr, repeats them with each try to connect; a
        # logger in its place makes fatal errors crash it.
        return kind({"log_level": "0", "error_cb": Complaints(), **settings}, **rest)
    except (KafkaException, TypeError) as exc:  # the latter of a callback that is none
        why = exc.args[0].str() if isinstance(exc, KafkaException) else str(exc)
        raise ConfigError(
            f"{owner}: Kafka's client refuses its settings: {why}.",
            hint=f"Options that begin with {PREFIX} are settings of librdkafka, or of Kafka's Java "
            "client where they mean the same.",
        ) from exc


def import_client(owner: str) -> Any:
    """The module ``confluent_kafka``.

    :raises ConfigError: it is not installed.
    """
    try:
        import confluent_kafka
    except ImportError as exc:
        raise ConfigError(
            f"{owner} needs Kafka's client, which is not installed.", hint=MISSING
        ) from exc
    return confluent_kafka
