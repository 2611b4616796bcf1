"""A client of MQTT 5 by the options of a connector, and its errors as the engine's.

==================  ============================================================================
option
==================  ============================================================================
url                 ``mqtt://host:1883``, ``mqtts://host:8883`` with TLS
username, password
caFile              PEM: who signs the broker's certificate, if not those that the machine trusts
certFile, keyFile   PEM: the client's own certificate and its key
==================  ============================================================================

MQTT 3.1.1 will not do: it knows neither how long a session is kept, nor how much may be on its way,
nor reasons.

A connection that is lost stays lost: whoever has it knows what was on its way, and connects anew.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from engine.base.connector_options import Options
from engine.errors import ConfigError

INSTALL: Final = "pip install 'airflow-provider-continuous[mqtt]'"
LOGIN_OPTIONS: Final = ("username", "password", "caFile", "certFile", "keyFile")
PORTS: Final[Mapping[str, int]] = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True)
class MqttServer:
    """Where a broker is. Picklable.

    :param owner: who speaks to it, for errors.
    """

    owner: str
    host: str
    port: int
    has_tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    @classmethod
    def of(cls, owner: str, taken: Options) -> MqttServer:
        """:raises ConfigError: the client is not installed, or the options name no broker."""
        import_client(owner)
        scheme, host, port = _address(owner, taken.required("url", example="mqtt://localhost:1883"))
        username, password, *files = (taken.text(name) or None for name in LOGIN_OPTIONS)
        if any(files) and scheme != "mqtts":
            raise ConfigError(
                f"{owner}: the option url begins with mqtt://, without TLS, and there are files of "
                "certificates.",
                hint="Begin it with mqtts://.",
            )
        if files[2] is not None and files[1] is None:
            raise ConfigError(
                f"{owner}: there is a keyFile, and no certFile.",
                hint="Set certFile to the certificate that the key belongs to.",
            )
        if password is not None and username is None:
            raise ConfigError(f"{owner}: there is a password, and no username.")
        return cls(owner, host, port, scheme == "mqtts", username, password, *files)

    @property
    def name(self) -> str:
        """For people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"MQTT at {host}:{self.port}"

    def client(self, client_id: str) -> Any:
        """A ``paho.mqtt.client.Client`` that is not connected, never connects again by itself,
        acknowledges nothing by itself, and sends at once what it is given.

        :raises ConfigError: it is not installed, or a certificate cannot be read.
        """
        paho = import_client(self.owner)
        context = self._tls() if self.has_tls else None
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.max_inflight_messages_set(0)
        if self.username is not None:
            client.username_pw_set(self.username, self.password)
        if context is not None:
            client.tls_set_context(context)
        return client

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file, self._refuse_pass_phrase)
        except OSError as exc:
            raise ConfigError(
                f"{self.owner}: a certificate cannot be used: {exc}.",
                hint="caFile, certFile and keyFile name files of PEM, also on the executors.",
            ) from exc
        return context

    def _refuse_pass_phrase(self) -> NoReturn:
        """Without it OpenSSL would ask at the terminal, and wait."""
        raise ConfigError(
            f"{self.owner}: the client's key in {self.key_file or self.cert_file} has a pass "
            "phrase.",
            hint="Take it away, and let the file's permissions protect the key: "
            "openssl pkey -in with.pem -out key.pem.",
        )


def import_client(owner: str) -> Any:
    """The module ``paho.mqtt.client``.

    :raises ConfigError: it is not installed.
    """
    try:
        import paho.mqtt.client as paho
    except ImportError as exc:
        raise ConfigError(
            f"{owner} needs the client paho-mqtt, which is not installed.", hint=INSTALL
        ) from exc
    return paho


def _address(owner: str, url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as to connect does, which fails with no OSError
    except ValueError:
        parts, port = urlsplit(""), None
    if "@" in parts.netloc:
        raise ConfigError(
            f"{owner}: the option url has a user or a password.",
            hint="Set the options username and password instead.",
        )
    more = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in PORTS or not parts.hostname or more:
        raise ConfigError(
            f"{owner}: the option url is no address of a broker.",
            hint="It looks like mqtt://host:1883, or mqtts://host:8883 with TLS.",
        )
    return parts.scheme, parts.hostname, port or PORTS[parts.scheme]
