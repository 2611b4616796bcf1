"""Whom Kafka's other client trusts, and who it is, by librdkafka's settings.

Source: librdkafka's CONFIGURATION.md, ``ssl.*`` and ``https.ca.*``.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.errors import ConfigError

_SYSTEMS_OWN: Final = "probe"
"""In librdkafka: look where systems keep them. That is what Python does where nothing is said."""
_CERTIFICATE: Final = "ssl.certificate.location"


def trusting(client: Mapping[str, str], kind: str) -> ssl.SSLContext:
    """One that trusts the authorities of ``<kind>.ca.location`` (a file, a folder with the names of
    ``openssl rehash``, or ``probe``) or ``<kind>.ca.pem``; else the system's own.

    :param kind: ``ssl``, of brokers; ``https``, of where tokens come from.
    :raises ConfigError: they cannot be read.
    """
    place, text = f"{kind}.ca.location", f"{kind}.ca.pem"
    location, pem = client.get(place), client.get(text)
    if location == _SYSTEMS_OWN:
        location = None
    is_folder = location is not None and Path(location).is_dir()
    with _reading(f"kafka.{place}, {location}" if location else f"kafka.{text}"):
        return ssl.create_default_context(
            cafile=None if is_folder else location,
            capath=location if is_folder else None,
            cadata=pem,
        )


def brokers_tls(client: Mapping[str, str]) -> ssl.SSLContext | None:
    """For connections to brokers; None: they are in the clear.

    :raises ConfigError: a certificate cannot be read, or is not in a file.
    """
    if "SSL" not in client.get("security.protocol", "").upper():
        return None
    context = trusting(client, "ssl")
    if client.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if client.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if _CERTIFICATE in client:
        with _reading(f"kafka.{_CERTIFICATE}, {client[_CERTIFICATE]}, or its key"):
            context.load_cert_chain(
                client[_CERTIFICATE],
                client.get("ssl.key.location"),
                client.get("ssl.key.password", ""),  # without one OpenSSL asks at the terminal
            )
    elif "ssl.certificate.pem" in client or "ssl.keystore.location" in client:
        raise ConfigError(
            "Exactly-once delivery to Kafka needs the client's certificate in files.",
            hint="Set kafka.ssl.certificate.location and kafka.ssl.key.location (PEM).",
        )
    return context


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, TypeError) as exc:  # the latter of a text that is not ASCII
        raise ConfigError(
            f"Exactly-once delivery to Kafka cannot read {what}: {exc}.",
            hint="See that it is PEM, that it is there on the driver and on executors, and that "
            "the query may read it.",
        ) from exc
