"""Apache Kafka: one broker in KRaft mode, which is its own controller."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.certificates import write_certificate
from tests.servers.jars import KEPT, jars, java, one_at_a_time
from tests.servers.jvm import QUICK
from tests.servers.process import Process, free_ports
from tests.servers.tokens import AUDIENCE, ISSUER, TokenIssuer

VERSION = "4.2.1"
"""The newest that keeps its word: 4.3.0 and 4.3.1 forget to mark a transaction in partitions that
have no leader at the moment (KAFKA-20734), as those of a single broker that starts again. What was
committed may then be lost."""
JARS = (
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
READY_S = 90.0
USER = "me"
PASSWORD = "c0rrect-h0rse"
_WRITE = "-XX:ArchiveClassesAtExit"
_QUIET = "-Xlog:cds*=off"
_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""


class Cluster:
    """Brokers that are there, whoever started them.

    :ivar bootstrap: ``127.0.0.1:PORT``.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """:raises KafkaException: it is there already, or the broker refuses it."""
        wanted = {key.replace("_", "."): value for key, value in settings.items()}
        admin = self.admin()  # its end would be that of what it was asked for
        made = admin.create_topics([NewTopic(name, partitions, 1, config=wanted)])
        made[name].result(READY_S)


class Kafka(Cluster):
    """A broker with a folder of its own. It keeps ports and data over :meth:`stop` and
    :meth:`start`.

    :param folder: made by it.
    :param settings: server properties beside its own.
    :param options: of its JVM, beside those of all; by default it maps the archive of its classes.
    :ivar bootstrap_sasl: another port of it, where :data:`USER` has to log in with
        :data:`PASSWORD`, by SASL_PLAINTEXT and PLAIN.
    :ivar bootstrap_tls: another one, which shows :attr:`certificate`, a file, as PEM.
    :ivar bootstrap_oauth: another one, which wants a token of :attr:`tokens`.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._options = _archived_classes() if options is None else options
        port, controller, sasl, tls, oauth = free_ports(5)
        super().__init__(f"127.0.0.1:{port}")
        self.bootstrap_sasl, self.bootstrap_tls = f"127.0.0.1:{sasl}", f"127.0.0.1:{tls}"
        self.bootstrap_oauth, self.tokens = f"127.0.0.1:{oauth}", TokenIssuer(folder)
        with_key, self.certificate = write_certificate(folder)
        self._jars = jars(*JARS)
        self._properties = folder / "server.properties"
        lines = _properties(folder, port, controller, sasl, tls, oauth) | {
            "listener.name.oauth.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": (
                self.tokens.key_set.as_uri()
            ),
            "listener.name.ssl.ssl.keystore.type": "PEM",
            "listener.name.ssl.ssl.keystore.location": str(with_key),
            **(settings or {}),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        (folder / "log4j2.properties").write_text(_LOGGING)
        self._process: Process | None = None
        self._format()

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [*self._java("kafka.Kafka"), self._properties]
        self._process = Process(command, self.log)
        self._process.await_ready(self._answers, READY_S)

    def stop(self) -> None:
        """End it in order. Again is fine."""
        if self._process is not None:
            self._process.stop()

    def _answers(self) -> bool:
        try:
            self.admin().list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = self._java("kafka.tools.StorageTool")  # an id may begin with a dash
        command += ["format", f"--cluster-id={cluster}", "-c", str(self._properties)]
        made = subprocess.run(command, capture_output=True, text=True, timeout=READY_S)
        assert made.returncode == 0, made.stdout + made.stderr

    def _java(self, main: str) -> list[str]:
        options = ["-Xmx512m", *QUICK, *self._options]
        keys = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.%s={self.tokens.key_set.as_uri()}"
        options += [keys % "urls", f"{keys % 'files'},{self.tokens.key_set}"]
        options.append(f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}")
        return [str(java()), *options, "-cp", f"{self._jars}/*", main]


def _archived_classes() -> list[str]:
    """Options for a JVM that maps Kafka's classes from a file, a third of the work of a start. The
    first broker of a machine makes the file, kept beside the libraries, at its end."""
    program = java().resolve()
    key = f"{jars(*JARS).name} {program} {program.stat().st_mtime_ns}"
    archive = KEPT / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"
    if not archive.exists():
        with one_at_a_time(), tempfile.TemporaryDirectory(dir=KEPT) as folder:
            if not archive.exists():
                made = Path(folder) / archive.name
                with running_kafka(Path(folder) / "broker", options=[f"{_WRITE}={made}"]):
                    pass
                if made.exists():  # not every Java makes one
                    made.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}", _QUIET] if archive.exists() else []


@contextmanager
def running_kafka(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    options: Sequence[str] | None = None,
) -> Iterator[Kafka]:
    """A broker until the end of the block; its folder goes with it."""
    kafka = Kafka(folder, settings, options)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()
        shutil.rmtree(folder)


def _properties(
    folder: Path, port: int, controller: int, sasl: int, tls: int, oauth: int
) -> dict[str, str]:
    listeners = (
        f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{tls},"
        f"OAUTH://127.0.0.1:{oauth}"
    )
    bearer, login = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearer",
        "listener.name.oauth",
    )
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,OAUTH:SASL_PLAINTEXT",
        f"{login}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{login}.oauthbearer.sasl.jaas.config": f"{bearer}LoginModule required;",
        f"{login}.oauthbearer.sasl.server.callback.handler.class": (
            f"{bearer}ValidatorCallbackHandler"
        ),
        f"{login}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{login}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security."
        f'plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "2000",  # so long its controller remembers one that was killed
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",  # else records whose timestamps are old go at any moment
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
    }
