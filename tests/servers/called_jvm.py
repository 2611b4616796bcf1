"""A JVM whose classes are called from here, through py4j: PySpark's way to Java as well."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from engine.spark.java import use_java
from tests.servers.jars import java
from tests.servers.jvm import QUICK

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
STOP_S = 60.0


class Jvm:
    """A JVM that ends with this process, at the latest.

    :param folder: where it runs.
    :param classpath: folders, or all jars of a folder: ``.../*``.
    :ivar pid: its process.
    :raises NoJarsError: there is no Java.
    """

    def __init__(self, folder: Path, classpath: Sequence[str | Path], *options: str) -> None:
        use_java(java())
        (py4j,) = SPARK_JARS.glob("py4j-*.jar")
        port, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=":".join(map(str, classpath)),
            javaopts=["-Xmx512m", *QUICK, *options],
            die_on_exit=True,
            java_path=str(java()),
            create_new_process_group=True,
            cwd=str(folder),
            return_proc=True,
        )
        process: Popen[bytes] = self._process
        self.pid = int(process.pid)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))

    @property
    def classes(self) -> Any:
        """Its packages: ``.java.net.InetAddress``."""
        return self._gateway.jvm

    def array(self, kind: Any, *values: Any) -> Any:
        """An array of Java's with these."""
        made = self._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def stop(self) -> None:
        """End it."""
        with suppress(Exception):
            self._gateway.shutdown()  # else each object that goes tries to say so
        assert self._process.stdin is not None
        self._process.stdin.close()  # it ends with its input
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
