"""A catalog of Iceberg that speaks REST: the one of Iceberg's own tests, which keeps in a database
of SQLite where its tables are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.servers.jars import jars, java
from tests.servers.jvm import QUICK
from tests.servers.process import Process, answers, free_ports

VERSION = "1.11.0"
JETTY = "12.1.5"
FIXTURES = (
    f"org.apache.iceberg:iceberg-open-api:{VERSION}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{VERSION}:tests",
)
JARS = (
    f"org.apache.iceberg:iceberg-core:{VERSION}",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{JETTY}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
READY_S = 60.0


class IcebergCatalog:
    """A server. It keeps its port and its tables over an end and another :meth:`start`.

    :param folder: for what it keeps, files of tables among it.
    :ivar uri: ``http://127.0.0.1:PORT``.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        (self._port,) = free_ports(1)
        self.uri = f"http://127.0.0.1:{self._port}"
        self._jars = (jars(*FIXTURES, alone=True), jars(*JARS))
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def properties(self) -> dict[str, str]:
        """How Iceberg's own client reaches it."""
        return {"type": "rest", "uri": self.uri}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        spark = Path(pyspark.__file__).parent / "jars"  # Hadoop's client, and a log
        shared = [
            str(path)
            for name in ("hadoop-client-*", "log4j-slf4j2-impl-*", "log4j-core-*", "log4j-api-*")
            for path in spark.glob(f"{name}.jar")
        ]
        self._process = Process(
            [
                *(
                    java(),
                    "-Xmx256m",
                    *QUICK,
                    "-cp",
                    os.pathsep.join([*(f"{each}/*" for each in self._jars), *shared]),
                ),
                "org.apache.iceberg.rest.RESTCatalogServer",
            ],
            self._folder / "catalog.log",
            environment={
                **os.environ,
                "CATALOG_REST_PORT": str(self._port),
                "CATALOG_URI": f"jdbc:sqlite:{self._folder / 'catalog.db'}",
                "CATALOG_WAREHOUSE": (self._folder / "warehouse").as_uri(),
            },
        )
        self._process.await_ready(lambda: answers(f"{self.uri}/v1/config"), READY_S)


@contextmanager
def iceberg_catalog(folder: Path) -> Iterator[IcebergCatalog]:
    """Serves while the block runs.

    :raises NoJarsError: it cannot be had here.
    """
    server = IcebergCatalog(folder)
    try:
        server.start()
        yield server
    finally:
        if server._process is not None:
            server.process.stop()
