"""HDFS and YARN, real ones: Hadoop's own daemons, with their RPC and HTTP, in one JVM on loopback.

They are of Hadoop's minicluster, in the version that PySpark brings. Nothing of Hadoop's is
compiled: its classes are called, see :mod:`tests.servers.called_jvm`.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyspark
from py4j.protocol import Py4JJavaError

from tests.servers.called_jvm import Jvm
from tests.servers.jars import jars
from tests.waiting import wait_until

BESIDE = (
    "org.junit.jupiter:junit-jupiter-api:5.12.2",
    "org.bouncycastle:bcpkix-jdk18on:1.80",
    "org.slf4j:slf4j-reload4j:1.7.36",
)
"""What the minicluster uses, and does not say that it needs."""
READY_S = 120.0
_LOG4J = """log4j.rootLogger=INFO,file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %c{{2}}: %m%n
"""
_SETTINGS = {
    "dfs.replication": 1,
    "dfs.permissions.enabled": "false",
    "yarn.acl.enable": "false",
    "yarn.nodemanager.resource.memory-mb": 4096,
    "yarn.nodemanager.resource.cpu-vcores": 8,
    "yarn.scheduler.minimum-allocation-mb": 128,
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99.5,
    "yarn.nodemanager.delete.debug-delay-sec": 600,  # logs of containers stay while the tests run
    "yarn.resourcemanager.am.max-attempts": 2,
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": 100,
    "yarn.scheduler.capacity.maximum-am-resource-percent": 0.8,
    "hadoop.http.authentication.simple.anonymous.allowed": "true",
}


class Hadoop:
    """One NameNode, one DataNode, one ResourceManager, one or more NodeManagers.

    :param folder: made by it; all that they write, the containers' logs too, is below.
    :param nodes: how many NodeManagers.
    :ivar conf_dir: for ``HADOOP_CONF_DIR``.
    :ivar hdfs: ``hdfs://127.0.0.1:PORT``.
    :ivar web: the address of the ResourceManager's web page.
    """

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        folder.mkdir(parents=True)
        self.folder, self.conf_dir, self._nodes = folder, folder / "conf", nodes
        self.hdfs = self.web = ""
        self._jvm: Jvm | None = None
        self._dfs: Any = None
        self._yarn: Any = None

    def start(self) -> None:
        """Start them, and wait until they serve.

        :raises NoJarsError: there is no Java, or no repository can be reached.
        """
        classes = jars(f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}", *BESIDE)
        classpath = self.folder / "log4j"
        classpath.mkdir()
        log = self.folder / "hadoop.log"
        (classpath / "log4j.properties").write_text(_LOG4J.format(log=log))
        data = f"-Dtest.build.data={self.folder / 'data'}"
        ipv4 = "-Djava.net.preferIPv4Stack=true"
        self._jvm = Jvm(self.folder, [classpath, f"{classes}/*"], ipv4, data)
        hadoop = self._jvm.classes.org.apache.hadoop
        conf = hadoop.conf.Configuration()
        for key, value in _SETTINGS.items():
            conf.set(key, str(value))
        self._dfs = hadoop.hdfs.MiniDFSCluster.Builder(conf).numDataNodes(1).build()
        self._dfs.waitActive()
        self.hdfs = str(self._dfs.getURI())
        conf = hadoop.yarn.conf.YarnConfiguration(conf)
        conf.set("fs.defaultFS", self.hdfs)
        self._yarn = hadoop.yarn.server.MiniYARNCluster("yarn", self._nodes, 1, 1)
        self._yarn.init(conf)
        self._yarn.start()
        assert self._yarn.waitForNodeManagersToConnect(int(READY_S * 1000)), self.said()
        known = self._yarn.getConfig()
        self.web = f"http://{known.get('yarn.resourcemanager.webapp.address')}"
        self._write_conf(known)
        wait_until(lambda: self.ask("cluster/info"), "the ResourceManager answers", READY_S)

    def stop(self) -> None:
        """End them all. Again is fine."""
        jvm, self._jvm = self._jvm, None
        if jvm is None:
            return
        with suppress(Exception):
            self._yarn.stop()  # it ends its containers
        jvm.stop()

    @property
    def pid(self) -> int:
        """Of their JVM."""
        assert self._jvm is not None, "not started"
        return self._jvm.pid

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client of them needs."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir), "YARN_CONF_DIR": str(self.conf_dir)}

    def ask(self, what: str) -> Any:
        """What the ResourceManager tells: ``cluster/apps``."""
        with urllib.request.urlopen(f"{self.web}/ws/v1/{what}", timeout=10) as answer:
            return json.load(answer)

    def said(self) -> str:
        """The end of their log."""
        return (self.folder / "hadoop.log").read_text(errors="replace")[-4000:]

    def containers_said(self) -> str:
        """What the containers have written, all of them."""
        return "\n".join(
            f"== {path.relative_to(self.folder)}\n{path.read_text(errors='replace')[-6000:]}"
            for path in sorted(self.folder.rglob("container_*/std*"))
        )

    @contextmanager
    def safe_mode(self) -> Iterator[None]:
        """The NameNode lets nothing be written until the end of the block."""
        assert self._jvm is not None
        actions = self._jvm.classes.org.apache.hadoop.fs.SafeModeAction
        self._dfs.getFileSystem().setSafeMode(actions.ENTER)
        try:
            yield
        finally:
            self._dfs.getFileSystem().setSafeMode(actions.LEAVE)

    def _write_conf(self, known: Any) -> None:
        """Only what a client needs, as on a gateway host of a cluster."""
        self.conf_dir.mkdir()
        core = {"fs.defaultFS": self.hdfs}
        hdfs = {
            "dfs.namenode.http-address": known.get("dfs.namenode.http-address"),
            "dfs.replication": 1,
        }
        yarn = {
            key: known.get(key)
            for key in (
                "yarn.resourcemanager.address",
                "yarn.resourcemanager.scheduler.address",
                "yarn.resourcemanager.webapp.address",
                "yarn.resourcemanager.hostname",
            )
        }
        for name, settings in {"core": core, "hdfs": hdfs, "yarn": yarn}.items():
            (self.conf_dir / f"{name}-site.xml").write_text(_xml(settings))


@contextmanager
def running_hadoop(folder: Path, nodes: int = 1) -> Iterator[Hadoop]:
    """They run until the end of the block."""
    hadoop = Hadoop(folder, nodes)
    try:
        hadoop.start()
        yield hadoop
    except Py4JJavaError as error:
        raise AssertionError(f"{error}\n{hadoop.said()}") from None  # its text is the JVM's to tell
    finally:
        hadoop.stop()


def hadoop_version() -> str:
    """Of the libraries that PySpark brings."""
    (api,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    found = re.fullmatch(r"hadoop-client-api-(.+)\.jar", api.name)
    assert found is not None
    return found.group(1)


def _xml(settings: Mapping[str, Any]) -> str:
    properties = "".join(
        f"<property><name>{key}</name><value>{escape(str(value))}</value></property>\n"
        for key, value in settings.items()
    )
    return f"<configuration>\n{properties}</configuration>\n"
