"""What makes pods of :mod:`tests.servers.kubernetes` run: scheduler, kubelet, cluster DNS and
garbage collector of one node, as far as Spark needs them.

It looks at all pods again and again, and does for each what is next:

- it takes charge of it by a finalizer, so that a pod that is deleted stays until it has ended;
- it gives it an address of loopback, and starts it when there is room for it and the ConfigMaps and
  Secrets that it mounts are there; until then it is Pending;
- it tells when it has ended, with which exit code;
- of one that is deleted it terminates the container, and kills it when its time is over;
- it deletes what belongs to a pod that is gone.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from signal import Signals
from typing import Any

import pyspark

from tests.servers import pods
from tests.servers.container import Container, check_namespaces
from tests.servers.jars import java
from tests.servers.kubernetes import ApiServer, NoObjectError
from tests.servers.looking import Looking

FINALIZER = "tests/kubelet"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
_GRACE_S = 30.0
_NUMBERS = itertools.count(1)


class Kubelet(Looking):
    """A node. Its thread ends with :meth:`stop`, and all its containers.

    :param folder: made by it.
    :ivar room: how many pods may run at once; None: any number.
    """

    def __init__(self, server: ApiServer, namespace: str, folder: Path) -> None:
        super().__init__("kubelet")
        check_namespaces()
        folder.mkdir(parents=True)
        self.room: int | None = None
        self._server, self._folder = server, folder
        self._core = f"/api/v1/namespaces/{namespace}"
        self._hosts = folder / "hosts"
        self._hosts.touch()
        self._containers: dict[str, Container] = {}
        self._kill_at: dict[str, float] = {}
        self._evicted: set[str] = set()
        self._lost: set[str] = set()
        self.begin()

    def end_all(self) -> None:
        """Kill all containers."""
        for container in self._containers.values():
            container.kill()

    def container(self, pod: str) -> Container:
        """Of a pod that was started.

        :raises KeyError: there is none.
        """
        return self._containers[self.pod(pod)["metadata"]["uid"]]

    def pod(self, name: str) -> Any:
        """:raises NoObjectError: there is none."""
        return self._server.get(f"{self._core}/pods/{name}")

    def pods(self) -> list[Any]:
        """All there are."""
        return self._server.items(f"{self._core}/pods")

    def waiting_or_running(self, role: str | None = None) -> list[Any]:
        """Those that have not ended, nor are about to.

        :param role: ``driver`` or ``executor``; None: both.
        """
        return [
            pod
            for pod in self.pods()
            if role in (None, (pod["metadata"].get("labels") or {}).get("spark-role"))
            and (pod.get("status") or {}).get("phase", "Pending") in ("Pending", "Running")
            and not pod["metadata"].get("deletionTimestamp")
        ]

    def evict(self, name: str) -> None:
        """The node has no memory left: it ends the pod, and tells why."""
        self._evicted.add(self.pod(name)["metadata"]["uid"])

    def lose(self, name: str) -> None:
        """The node is gone, and with it the pod."""
        self._lost.add(self.pod(name)["metadata"]["uid"])

    def said(self) -> str:
        """What all containers have written."""
        return "\n".join(
            f"== {path.parent.name}\n{path.read_text(errors='replace')[-8000:]}"
            for path in sorted(self._folder.glob("*/log"))
        )

    def look(self) -> None:
        """Look at all pods."""
        found = self.pods()
        self._tell_names(found)
        uids = {pod["metadata"]["uid"] for pod in found}
        for pod in found:
            try:
                self._care_for(pod, found, uids)
            except NoObjectError:
                continue  # gone meanwhile, or what it mounts is not there yet
        for kind in ("services", "configmaps"):
            for owned in self._server.items(f"{self._core}/{kind}"):
                if _is_orphan(owned, uids):
                    self._server.delete(f"{self._core}/{kind}/{owned['metadata']['name']}")

    def _care_for(self, pod: Any, found: list[Any], uids: set[str]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        phase = (pod.get("status") or {}).get("phase")
        container = self._containers.get(uid)
        if container is not None and uid in self._lost:
            container.kill()
            self._change(name, {"metadata": {"finalizers": None}})
            self._server.delete(f"{self._core}/pods/{name}")
        elif pod["metadata"].get("deletionTimestamp"):
            self._end(pod, container)
        elif _is_orphan(pod, uids):
            self._server.delete(f"{self._core}/pods/{name}")
        elif FINALIZER not in pod["metadata"].get("finalizers", ()):
            self._change(name, {"metadata": {"finalizers": [FINALIZER]}})
            self._change(name, {"status": {"phase": "Pending"}})
        elif container is None:
            running = [one for one in found if (one.get("status") or {}).get("phase") == "Running"]
            if self.room is None or len(running) < self.room:
                self._start(pod)
        elif uid in self._evicted and phase == "Running":
            container.kill()
            self._told_end(pod, container, "Evicted")
        elif container.exit_code is not None and phase == "Running":
            self._told_end(pod, container, None)

    def _start(self, pod: Any) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        ip = (pod.get("status") or {}).get("podIP")
        if ip is None:  # its name is told first, and it starts with the next look
            ip = f"127.1.{os.getpid() % 250}.{next(_NUMBERS) % 250 + 1}"
            self._change(name, {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}})
            return
        told = pods.environment(pod, ip, self._content)
        (container,) = pod["spec"]["containers"]
        arguments = [*container.get("command", ()), *container.get("args", ())]
        mounted = {TOKEN: {"token": "a-token"}, **pods.files(pod, self._content)}
        folder = self._folder / f"{name}-{uid[-6:]}"
        self._containers[uid] = made = Container(
            folder,
            name,
            Path(pyspark.__file__).parent,
            pods.command(arguments, told, str(java())),
            told,
            mounted,
            self._hosts,
        )
        log = self._server.logs / f"namespaces/{pod['metadata']['namespace']}/pods/{name}"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        log.symlink_to(made.log)
        now = _now()
        state = {"running": {"startedAt": now}}
        self._change(
            name,
            {
                "status": {
                    "phase": "Running",
                    "startTime": now,
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [_container_status(container, state, ready=True)],
                }
            },
        )

    def _end(self, pod: Any, container: Container | None) -> None:
        uid = pod["metadata"]["uid"]
        if container is not None and container.exit_code is None:
            if uid not in self._kill_at:
                grace_s = pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)
                self._kill_at[uid] = time.monotonic() + grace_s
                container.signal(Signals.SIGTERM)
            elif time.monotonic() >= self._kill_at[uid]:
                container.kill()
            return
        self._change(pod["metadata"]["name"], {"metadata": {"finalizers": None}})

    def _told_end(self, pod: Any, container: Container, reason: str | None) -> None:
        code = container.exit_code or 0
        (described,) = pod["spec"]["containers"]
        why = reason or ("Completed" if code == 0 else "Error")
        state = {"terminated": {"exitCode": code, "reason": why, "finishedAt": _now()}}
        status: dict[str, Any] = {
            "phase": "Failed" if code or reason else "Succeeded",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [_container_status(described, state, ready=False)],
        }
        if reason:
            status |= {"reason": reason, "message": "The node was low on resource: memory."}
        self._change(pod["metadata"]["name"], {"status": status})

    def _change(self, name: str, change: Mapping[str, Any]) -> None:
        below = "/status" if "status" in change else ""
        self._server.patch(f"{self._core}/pods/{name}{below}", change)

    def _content(self, kind: str, name: str) -> Mapping[str, str]:
        return pods.content(kind, self._server.get(f"{self._core}/{kind}/{name}"))

    def _tell_names(self, found: list[Any]) -> None:
        text = pods.hosts(self._server.items(f"{self._core}/services"), found)
        if text != self._hosts.read_text():
            self._hosts.write_text(text)  # in place: containers have this very file


@contextmanager
def running_kubelet(server: ApiServer, namespace: str, folder: Path) -> Iterator[Kubelet]:
    """It runs until the end of the block.

    :raises NoServerError: containers cannot be made here.
    """
    kubelet = Kubelet(server, namespace, folder)
    try:
        yield kubelet
    finally:
        kubelet.stop()


def _is_orphan(body: Mapping[str, Any], uids: set[str]) -> bool:
    owners = [
        owner["uid"]
        for owner in body["metadata"].get("ownerReferences") or ()
        if owner["kind"] == "Pod"
    ]
    return bool(owners) and not uids.intersection(owners)


def _container_status(
    described: Mapping[str, Any], state: Mapping[str, Any], *, ready: bool
) -> dict[str, Any]:
    return {
        "name": described["name"],
        "image": described.get("image", ""),
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
