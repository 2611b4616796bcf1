"""MQTT: HiveMQ Community Edition, which keeps sessions on disk, and takes a message only when it is
there. It comes as a Java library, which is steered from here: so nothing has to be compiled."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyspark
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway

from tests.servers.certificates import write_certificate
from tests.servers.jars import jars, java
from tests.servers.jvm import QUICK
from tests.servers.process import Process, free_ports

VERSION = "2025.5"
JARS = (f"com.hivemq:hivemq-community-edition-embedded:{VERSION}",)
READY_S = 60.0
USER = "me"
PASSWORD = "c0rrect-h0rse"
UNDER_WAY = 10_000
"""HiveMQ's own limit of messages that a client has not acknowledged is 50."""
_STORE = "no secret"
_OPENED = (
    "java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip
_CONFIG = """\
<?xml version="1.0"?>
<hivemq>
  <listeners>
    <tcp-listener><port>{port}</port><bind-address>127.0.0.1</bind-address></tcp-listener>
    <tcp-listener><port>{login}</port><bind-address>127.0.0.1</bind-address></tcp-listener>
    <tls-tcp-listener>
      <port>{tls}</port><bind-address>127.0.0.1</bind-address>
      <tls><keystore>
        <path>{store}</path><password>{password}</password>
        <private-key-password>{password}</private-key-password>
      </keystore></tls>
    </tls-tcp-listener>
  </listeners>
  <mqtt>
    <queued-messages><max-queue-size>1000000</max-queue-size></queued-messages>
    <receive-maximum><server-receive-maximum>100</server-receive-maximum></receive-maximum>
    <packets><max-packet-size>1000000</max-packet-size></packets>
  </mqtt>
  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
</hivemq>
"""


class MqttBroker:
    """A broker with a folder of its own. It keeps ports and sessions over :meth:`start`.

    :param folder: made by it.
    :ivar url: ``mqtt://127.0.0.1:PORT``.
    :ivar url_login: another port of it, where :data:`USER` has to log in with :data:`PASSWORD`.
    :ivar url_tls: another one, which shows :attr:`certificate`, a file, as PEM.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.port, self._login, tls = free_ports(3)
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.url_login = f"mqtt://127.0.0.1:{self._login}"
        self.url_tls = f"mqtts://127.0.0.1:{tls}"
        with_key, self.certificate = write_certificate(folder)
        for name in ("conf", "data", "extensions"):
            (folder / name).mkdir()
        (folder / "conf" / "config.xml").write_text(
            _CONFIG.format(
                port=self.port,
                login=self._login,
                tls=tls,
                store=_key_store(with_key),
                password=_STORE,
            )
        )
        py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
        self._classes = f"{jars(*JARS)}/*:{py4j}"
        self._steering: JavaGateway | None = None
        self.process: Process

    def start(self) -> None:
        """And wait until it serves."""
        (steered,) = free_ports(1)
        options = ["-Xmx512m", *QUICK]
        options += [word for each in _OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
        self.process = Process(
            [java(), *options, "-cp", self._classes, "py4j.GatewayServer", str(steered)],
            self._folder / "broker.log",
        )
        self.process.await_ready(lambda: _listens(steered), READY_S)
        self._let_go()
        self._steering = JavaGateway(
            gateway_parameters=GatewayParameters(port=steered, enable_memory_management=False),
            callback_server_parameters=CallbackServerParameters(port=0, daemonize=True),
        )
        _serve(self._steering, self._folder, self._login)
        self.process.await_ready(lambda: _listens(self.port), READY_S)

    def end(self) -> None:
        """Again is fine."""
        self.process.kill()
        self._let_go()

    @property
    def next_number(self) -> int:
        """Of the messages that are published."""
        assert self._steering is not None, "it was not started"
        return int(self._steering.jvm.com.hivemq.mqtt.message.publish.PUBLISH.PUBLISH_COUNTER)

    def _let_go(self) -> None:
        if self._steering is not None:
            self._steering.shutdown_callback_server()
            self._steering.close()
            self._steering = None


@contextmanager
def running_mqtt(folder: Path) -> Iterator[MqttBroker]:
    """A broker until the end of the block.

    :param folder: made by it.
    """
    broker = MqttBroker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.end()


def _serve(steering: JavaGateway, folder: Path, login: int) -> None:
    jvm = steering.jvm
    callbacks = steering.get_callback_server().get_listening_port()
    server = steering.java_gateway_server
    server.resetCallbackClient(server.getCallbackClient().getAddress(), callbacks)
    settings = jvm.com.hivemq.configuration.service.InternalConfigurations
    field = jvm.java.lang.Class.forName(
        "com.hivemq.configuration.service.InternalConfigurations"
    ).getField("MAX_INFLIGHT_WINDOW_SIZE_MESSAGES")
    field.setInt(None, UNDER_WAY)
    settings.AUTH_DENY_UNAUTHENTICATED_CONNECTIONS.set(False)

    def path(name: str) -> Any:
        return jvm.java.io.File(str(folder / name)).toPath()

    doors = (
        jvm.com.hivemq.embedded.EmbeddedExtension.builder()
        .withId("doors").withName("doors").withVersion("1").withAuthor("tests")
        .withPriority(0).withStartPriority(1000)
        .withExtensionMain(_Doors(steering, login)).build()
    )  # fmt: skip
    (
        jvm.com.hivemq.embedded.EmbeddedHiveMQ.builder()
        .withConfigurationFolder(path("conf")).withDataFolder(path("data"))
        .withExtensionsFolder(path("extensions")).withEmbeddedExtension(doors)
        .build().start().get()
    )  # fmt: skip


def _number_from(steering: JavaGateway, number: int) -> None:
    """Of the messages that are published from now on. Py4J would give the counter as a number."""
    java = steering.jvm.java.lang
    handles, of = java.invoke.MethodHandles, java.Class.forName
    counter = of("java.util.concurrent.atomic.AtomicLong")
    set_it = handles.publicLookup().findVirtual(
        counter, "set", java.invoke.MethodType.methodType(java.Void.TYPE, java.Long.TYPE)
    )
    get_it = handles.publicLookup().findStaticGetter(
        of("com.hivemq.mqtt.message.publish.PUBLISH"), "PUBLISH_COUNTER", counter
    )
    given = steering.jvm.java.util.ArrayList()
    given.add(number)
    handles.collectArguments(set_it, 0, get_it).invokeWithArguments(given)


class _Doors:
    """Lets everybody in, but at one port."""

    def __init__(self, steering: JavaGateway, login: int) -> None:
        self._steering, self._login = steering, login

    def extensionStart(self, given: Any, out: Any) -> None:
        # HiveMQ goes on behind the last number whose payload it has. It queues a message before it
        # keeps the payload: if it is killed in between, the next message would get that number,
        # have no payload either, and be dropped, although its publisher was told that it is there.
        _number_from(self._steering, time.time_ns() // 1_000)
        services = self._steering.jvm.com.hivemq.extension.sdk.api.services.Services
        services.securityRegistry().setAuthenticatorProvider(
            _Provider(_Authenticator(self._steering, self._login))
        )

    def extensionStop(self, given: Any, out: Any) -> None:
        pass

    class Java:
        implements: ClassVar = ["com.hivemq.extension.sdk.api.ExtensionMain"]


class _Provider:
    def __init__(self, authenticator: _Authenticator) -> None:
        self._authenticator = authenticator

    def getAuthenticator(self, given: Any) -> Any:
        return self._authenticator

    class Java:
        implements: ClassVar = [
            "com.hivemq.extension.sdk.api.services.auth.provider.AuthenticatorProvider"
        ]


class _Authenticator:
    def __init__(self, steering: JavaGateway, login: int) -> None:
        self._text = steering.jvm.java.nio.charset.StandardCharsets.UTF_8
        self._login = login

    def onConnect(self, given: Any, out: Any) -> None:
        packet = given.getConnectPacket()
        port = given.getConnectionInformation().getListener().get().getPort()
        if port != self._login or self._said(packet) == (USER, PASSWORD):
            out.authenticateSuccessfully()
        else:
            out.failAuthentication()

    def _said(self, packet: Any) -> tuple[str, str]:
        user, password = packet.getUserName(), packet.getPassword()
        if user.isEmpty() or password.isEmpty():
            return "", ""
        return user.get(), self._text.decode(password.get()).toString()

    class Java:
        implements: ClassVar = ["com.hivemq.extension.sdk.api.auth.SimpleAuthenticator"]


def _key_store(with_key: Path) -> Path:
    content = with_key.read_bytes()
    key = load_pem_private_key(content, None)
    assert isinstance(key, EllipticCurvePrivateKey)
    store = with_key.with_suffix(".p12")
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"broker",
            key,
            load_pem_x509_certificate(content),
            None,
            BestAvailableEncryption(_STORE.encode()),
        )
    )
    return store


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
