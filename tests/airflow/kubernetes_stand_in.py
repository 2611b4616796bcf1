"""A stand-in of Kubernetes' API server on loopback: it keeps objects by their paths, lists them by
labels, refuses a second one of a name, and fails when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: a, cluster: {{server: "{url}"}}}}]
users: [{{name: a, user: {{}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
current-context: a
"""
HANGS_UP = 0


class ApiServer:
    """See the module.

    :ivar objects: by their paths: ``/api/v1/namespaces/NAMESPACE/secrets/NAME``.
    :ivar fails: by method and kind, as ``("POST", "secrets")``, a status, or :data:`HANGS_UP`.
    :ivar says: with what words.
    :ivar thinks: what comes between a request and what it does, by method and kind likewise.
    :ivar unknown: fields of a specification that the kind does not have.
    :ivar logs: of pods, by name.
    :ivar keeps_all_the_same: what it fails at is done nevertheless.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: dict[str, Any] = {}
        self.fails: dict[tuple[str, str], int] = {}
        self.says = "it was told to fail"
        self.thinks: dict[tuple[str, str], Callable[[], object]] = {}
        self.unknown: set[str] = set()
        self.keeps_all_the_same = False
        self.logs: dict[str, str] = {}
        self._uids = 0

    def kubeconfig(self, folder: Path) -> Path:
        """A file that leads here."""
        path = folder / "kubeconfig"
        path.write_text(_KUBECONFIG.format(url=self.url))
        return path

    def of_kind(self, kind: str) -> dict[str, Any]:
        """All objects of a kind, by name."""
        return {
            path.rpartition("/")[2]: found
            for path, found in self.objects.items()
            if path.split("/")[-2] == kind
        }

    def add(self, path: str, body: dict[str, Any]) -> None:
        """Create an object."""
        self._uids += 1
        body["metadata"] |= {"uid": f"uid-{self._uids}"}
        self.objects[f"{path}/{body['metadata']['name']}"] = body

    def answer(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        """What a request does."""
        parts = urlsplit(url)
        path, query = parts.path, parse_qs(parts.query)
        if path.endswith("/log"):
            log = self.logs.get(path.split("/")[-2])
            return (400, {"message": "waiting to start"}) if log is None else (200, log)
        kind = next(name for name in ("secrets", "sparkapplications", "pods") if name in path)
        self.thinks.get((method, kind), int)()
        failure = self.fails.get((method, kind))
        if failure is not None and not self.keeps_all_the_same:
            return failure, {"message": self.says}
        status, told = self._do(method, path, query, body)
        return (status, told) if failure is None else (failure, {"message": self.says})

    def _do(
        self, method: str, path: str, query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any]:
        if method == "POST":
            if f"{path}/{body['metadata']['name']}" in self.objects:
                return 409, {"message": "already exists"}
            if query.get("fieldValidation") == ["Strict"]:
                for name in self.unknown & body.get("spec", {}).keys():
                    return 400, {"message": f'strict decoding error: unknown field "spec.{name}"'}
            self.add(path, body)
            return 201, body
        if path.endswith(("/secrets", "/sparkapplications", "/pods")):
            wanted = dict(
                part.split("=") for part in query.get("labelSelector", [""])[0].split(",") if part
            )
            items = [
                found
                for name, found in self.objects.items()
                if name.rpartition("/")[0] == path
                and wanted.items() <= (found["metadata"].get("labels") or {}).items()
            ]
            return 200, {"items": items}
        if path not in self.objects:
            return 404, {"message": "not found"}
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if method == "PUT":
            self.objects[path] = body
        return 200, self.objects[path]


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """It runs until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "null")
            status, told = server.answer(self.command, self.path, body)
            if status == HANGS_UP:
                self.close_connection = True
                return
            is_log = isinstance(told, str)
            text = (told if is_log else json.dumps(told)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if is_log else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = ApiServer(f"http://127.0.0.1:{http.server_address[1]}")
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
