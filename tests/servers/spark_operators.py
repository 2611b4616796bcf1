"""A stand-in of Kubeflow's and of Apache's operator on :mod:`tests.servers.kubernetes`: what a
``SparkApplication`` says is submitted by spark-submit, in the order of Kubeflow's
``submission.go``; what becomes of the driver's pod is written into its status, in each one's words.

Apache's operator makes the driver's pod by Spark's own classes instead, of the same settings.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from tests.servers.kubernetes import ApiServer, NoObjectError
from tests.servers.looking import Looking

KUBEFLOW = "/apis/sparkoperator.k8s.io/v1beta2"
APACHE = "/apis/spark.apache.org/v1"
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_OF_POD = {
    KUBEFLOW: {"Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED"},
    APACHE: {
        "Running": "RunningHealthy",
        "Succeeded": "ResourceReleased",
        "Failed": "TerminatedWithoutReleaseResources",
    },
}

_REFUSED = {
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.container.image",
    "spark.kubernetes.executor.container.image",
    "spark.kubernetes.authenticate.driver.serviceAccountName",
    "spark.kubernetes.authenticate.executor.serviceAccountName",
    "spark.kubernetes.driver.master",
    "spark.master",
}
"""By Kubeflow's webhook, since 2.5."""


class SparkOperators(Looking):
    """Both, in one thread that ends with :meth:`stop`.

    :param folder: made by it; for what spark-submit writes.
    """

    def __init__(self, server: ApiServer, namespace: str, folder: Path) -> None:
        super().__init__("operators")
        folder.mkdir(parents=True)
        self._server, self._folder = server, folder
        self._namespace = namespace
        self._submits: dict[str, subprocess.Popen[bytes]] = {}
        self.begin()

    def end_all(self) -> None:
        """End what still submits."""
        for process in self._submits.values():
            process.kill()
            process.wait()

    def applications(self, kind: str) -> list[Any]:
        """All of an operator: :data:`KUBEFLOW`, :data:`APACHE`."""
        return self._server.items(f"{kind}/namespaces/{self._namespace}/sparkapplications")

    def said(self) -> str:
        """What all submissions have written."""
        return "\n".join(path.read_text() for path in sorted(self._folder.iterdir()))

    def look(self) -> None:
        """Look at all applications."""
        found = {
            application["metadata"]["name"]: (kind, application)
            for kind in (KUBEFLOW, APACHE)
            for application in self.applications(kind)
        }
        for kind, application in found.values():
            try:
                self._care_for(kind, application)
            except NoObjectError:
                continue  # gone meanwhile
        for name in set(self._submits) - set(found):
            self._delete(name)

    def _care_for(self, kind: str, application: Any) -> None:
        name = application["metadata"]["name"]
        if name not in self._submits:
            self._submits[name] = self._submit(kind, application)
            self._tell(kind, name, "SUBMITTED" if kind == KUBEFLOW else "DriverRequested")
        elif self._submits[name].poll():
            self._tell(kind, name, "FAILED" if kind == KUBEFLOW else _OF_POD[APACHE]["Failed"])
        else:
            pod = self._server.get(f"{self._pods}/{name}-driver")
            told = _OF_POD[kind].get((pod.get("status") or {}).get("phase") or "Pending")
            if told is not None:
                self._tell(kind, name, told)

    def _delete(self, name: str) -> None:
        """What an operator does when its application is gone."""
        process = self._submits.pop(name)
        process.kill()
        process.wait()
        try:
            self._server.delete(f"{self._pods}/{name}-driver")
        except NoObjectError:
            return

    def _tell(self, kind: str, name: str, state: str) -> None:
        status = (
            {"applicationState": {"state": state}}
            if kind == KUBEFLOW
            else {"currentState": {"currentStateSummary": state}}
        )
        path = f"{kind}/namespaces/{self._namespace}/sparkapplications/{name}"
        if self._server.get(path).get("status") != status:
            self._server.patch(f"{path}/status", {"status": status})

    def _submit(self, kind: str, application: Any) -> subprocess.Popen[bytes]:
        name, spec = application["metadata"]["name"], application["spec"]
        conf = {"spark.kubernetes.namespace": self._namespace}
        if kind == KUBEFLOW:
            assert (spec["type"], spec["mode"]) == ("Python", "cluster")
            assert not _REFUSED & spec["sparkConf"].keys()
            program, arguments = spec["mainApplicationFile"], spec["arguments"]
            conf |= _settings("", spec) | spec["sparkConf"]
            conf |= _settings("driver", spec["driver"]) | _settings("executor", spec["executor"])
        else:
            program, arguments = spec["pyFiles"], spec["driverArgs"]
            conf |= spec["sparkConf"]
        conf |= {
            "spark.kubernetes.driver.pod.name": f"{name}-driver",
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }
        command = [
            str(_SUBMIT),
            "--master",
            f"k8s://{self._server.url}",
            "--deploy-mode",
            "cluster",
        ]
        command += ["--name", name]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        environment = {**os.environ, "KUBECONFIG": str(self._server.kubeconfig)}
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods"


@contextmanager
def running_operators(server: ApiServer, namespace: str, folder: Path) -> Iterator[SparkOperators]:
    """They run until the end of the block."""
    operators = SparkOperators(server, namespace, folder)
    try:
        yield operators
    finally:
        operators.stop()


def _settings(role: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """What Kubeflow's operator makes of its own fields."""
    names = {
        "image": "spark.kubernetes.container.image",
        "cores": f"spark.{role}.cores",
        "memory": f"spark.{role}.memory",
        "instances": f"spark.{role}.instances",
        "javaOptions": f"spark.{role}.extraJavaOptions",
        "serviceAccount": f"spark.kubernetes.authenticate.{role}.serviceAccountName",
        "kubernetesMaster": f"spark.kubernetes.{role}.master",
    }
    return {names[field]: str(value) for field, value in spec.items() if field in names}
