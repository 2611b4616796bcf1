"""A stand-in for HDFS: the calls of WebHDFS that checkpoints use, over files in memory. That a real
HDFS keeps what is asked of it here is seen by tests/cluster/test_hdfs.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit


class WebHdfsServer(ThreadingHTTPServer):
    """NameNode and DataNode in one.

    :ivar files: by their paths.
    :ivar refuses: an exception of Hadoop's, which each call gets; None: none.
    :ivar forbids: a path whose calls are refused.
    :ivar replaces: whether RENAME knows its options, as HttpFS does not.
    :ivar says: what each call is answered with instead, and its type of content; None: nothing.
    :ivar data_node: to whom the content of files goes; None: to itself.
    :ivar users: of all calls.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.refuses: str | None = None
        self.forbids = ""
        self.replaces = True
        self.says: tuple[bytes, str] | None = None
        self.data_node: str | None = None
        self.users: set[str] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


@contextmanager
def web_hdfs() -> Iterator[WebHdfsServer]:
    """It serves until the end of the block."""
    with WebHdfsServer() as server:
        thread = threading.Thread(target=lambda: server.serve_forever(0.05), name="webhdfs")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: WebHdfsServer
    _BY_DATA_NODE: ClassVar = ("OPEN", "CREATE")

    def handle_one_call(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        given = {key: values[0] for key, values in parse_qs(parts.query).items()}
        path, op = unquote(parts.path).removeprefix("/webhdfs/v1"), given["op"]
        self.server.users.add(given["user.name"])
        if self.server.refuses is not None:
            self._refuse(403, self.server.refuses, "no")
        elif path == self.server.forbids:
            self._refuse(403, "AccessControlException", "Permission denied")
        elif self.server.says is not None:
            self._tell(*self.server.says)
        elif op in self._BY_DATA_NODE and "at" not in given:
            assert not data, "the NameNode takes no data"
            self.send_response(307)
            data_node = self.server.data_node or self.server.address
            self.send_header("Location", f"http://{data_node}{self.path}&at=data")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            with self.server.lock:
                getattr(self, f"_{op.lower()}")(path, given, data)

    do_GET = do_PUT = do_DELETE = handle_one_call

    def _open(self, path: str, given: dict[str, str], data: bytes) -> None:
        if path in self.server.files:
            start = int(given.get("offset", 0))
            rest = self.server.files[path][start:]
            self._tell(rest[: int(given.get("length", len(rest)))])
        else:
            self._missing(path)

    def _create(self, path: str, given: dict[str, str], data: bytes) -> None:
        self.server.files[path] = data
        self._tell(b"", status=201)

    def _rename(self, path: str, given: dict[str, str], data: bytes) -> None:
        to, files = given["destination"], self.server.files
        known = given["renameoptions"] if self.server.replaces else None
        if to in files and known == "NONE":
            self._refuse(403, "FileAlreadyExistsException", f"{to} already exists")
        elif to in files and known is None:
            self._tell(b'{"boolean":false}')
        else:
            files[to] = files.pop(path)
            self._tell(b"" if known else b'{"boolean":true}')

    def _delete(self, path: str, given: dict[str, str], data: bytes) -> None:
        gone = [each for each in self.server.files if each == path or each.startswith(f"{path}/")]
        for each in gone:
            del self.server.files[each]
        self._tell(json.dumps({"boolean": bool(gone)}).encode())

    def _getfilestatus(self, path: str, given: dict[str, str], data: bytes) -> None:
        found = self._status(path, "")
        if found is None:
            self._missing(path)
        else:
            self._tell(json.dumps({"FileStatus": found}).encode())

    def _liststatus(self, path: str, given: dict[str, str], data: bytes) -> None:
        start = f"{path.rstrip('/')}/"
        names = {each.removeprefix(start).split("/")[0]
                 for each in self.server.files if each.startswith(start)}  # fmt: skip
        found = [self._status(start + name, name) for name in sorted(names)]
        if not found and self._status(path, "") is None:
            self._missing(path)
        else:
            found = found or [self._status(path, "")]
            self._tell(json.dumps({"FileStatuses": {"FileStatus": found}}).encode())

    def _status(self, path: str, name: str) -> dict[str, Any] | None:
        data = self.server.files.get(path)
        if data is None and not any(each.startswith(f"{path}/") for each in self.server.files):
            return None
        return {
            "pathSuffix": name,
            "type": "DIRECTORY" if data is None else "FILE",
            "length": len(data or b""),
            "modificationTime": 1_700_000_000_000,
        }

    def _missing(self, path: str) -> None:
        self._refuse(404, "FileNotFoundException", f"File does not exist: {path}")

    def _refuse(self, status: int, kind: str, message: str) -> None:
        told = {"RemoteException": {"exception": kind, "message": message}}
        self._tell(json.dumps(told).encode(), status=status)

    def _tell(self, data: bytes, kind: str = "application/json", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Not into the tests' output."""
