"""A stand-in of Kubernetes' API server: the mock server of fabric8, whose client Spark uses, in the
version that PySpark brings.

It keeps what is created, lists and watches it, by labels too, patches and deletes it; an object
with finalizers stays until somebody takes these away. Two things that it lacks are in
``ServerSideApply.java``, which Janino compiles, as it does Spark's generated code. It knows no
kinds, checks nothing, starts nothing, and asks nobody who they are: by
:mod:`tests.servers.kubelet` pods run.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.called_jvm import SPARK_JARS, Jvm
from tests.servers.jars import jars

ANSWER_S = 30.0
_OWN = Path(__file__).with_name("ServerSideApply.java")
_LOGGING = "handlers=\n"
_KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: stand-in, cluster: {{server: "{url}"}}}}]
users: [{{name: somebody, user: {{}}}}]
contexts: [{{name: stand-in, context: {{cluster: stand-in, user: somebody}}}}]
current-context: stand-in
"""


class NoObjectError(Exception):
    """There is none of that name."""


class ApiServer:
    """One API server.

    :param folder: made by it.
    :ivar url: ``http://127.0.0.1:PORT``.
    :ivar kubeconfig: a file for clients.
    :ivar logs: what ``namespaces/NAMESPACE/pods/NAME`` in here holds is that pod's log.
    :raises NoJarsError: there is no Java, or no repository can be reached.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        classes = jars(f"io.fabric8:kubernetes-server-mock:{fabric8_version()}")
        quiet = folder / "logging.properties"
        quiet.write_text(_LOGGING)
        option = f"-Djava.util.logging.config.file={quiet}"
        self._jvm = Jvm(folder, [f"{classes}/*", f"{SPARK_JARS}/*"], option)
        java, fabric8 = self._jvm.classes.java, self._jvm.classes.io.fabric8
        mock = fabric8.kubernetes.client.server.mock
        said = java.util.HashMap()
        self.logs = folder / "logs"
        compiler = self._jvm.classes.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_OWN.read_text())
        loaded = compiler.getClassLoader().loadClass(_OWN.stem)
        (dispatcher,) = loaded.getConstructors()
        arguments = self._jvm.array(java.lang.Object, said, str(self.logs))
        self._server = mock.KubernetesMockServer(
            fabric8.mockwebserver.Context(),
            fabric8.mockwebserver.MockWebServer(),
            said,
            dispatcher.newInstance(arguments),
            False,
        )
        self._server.start(java.net.InetAddress.getByName("127.0.0.1"), 0)
        self.url = f"http://127.0.0.1:{self._server.getPort()}"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(_KUBECONFIG.format(url=self.url))

    def stop(self) -> None:
        """End it."""
        self._jvm.stop()

    def forget(self) -> None:
        """Delete all objects."""
        self._server.reset()

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object: ``/api/v1/namespaces/NAMESPACE/pods``."""
        return self._ask("POST", path, body)

    def get(self, path: str) -> Any:
        """:raises NoObjectError: there is none."""
        return self._ask("GET", path)

    def items(self, path: str) -> list[Any]:
        """All objects of a kind."""
        found: list[Any] = self._ask("GET", path)["items"]
        return found

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Merge a change; what is None goes.

        :raises NoObjectError: there is none.
        """
        self._ask("PATCH", path, change)

    def delete(self, path: str) -> None:
        """:raises NoObjectError: there is none."""
        self._ask("DELETE", path)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": kind},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise NoObjectError(path) from None
            raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from None


@contextmanager
def running_api_server(folder: Path) -> Iterator[ApiServer]:
    """It runs until the end of the block."""
    server = ApiServer(folder)
    try:
        yield server
    finally:
        server.stop()


def fabric8_version() -> str:
    """Of the client that PySpark brings."""
    (client,) = SPARK_JARS.glob("kubernetes-client-api-*.jar")
    found = re.fullmatch(r"kubernetes-client-api-(.+)\.jar", client.name)
    assert found is not None
    return found.group(1)
