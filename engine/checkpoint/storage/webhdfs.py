"""HDFS over its REST interface, WebHDFS: it needs neither Java nor a native library, so drivers,
tasks and Airflow's processes reach the same files in the same way.

The NameNode decides, in one step each, what is renamed; data goes to and from DataNodes, where it
redirects to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_NOT_ACTIVE: Final = ("StandbyException", "RetriableException")
CONNECT_S: Final = 3.0
"""A machine that is gone refuses nothing, and the lease has to be renewed meanwhile."""
_BYTES: Final = {"Content-Type": "application/octet-stream"}


class RemoteError(Exception):
    """HDFS has refused something.

    :ivar kind: the class of its exception, ``FileAlreadyExistsException``; else the HTTP status, or
        in words what is wrong with the answer.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class WebHdfs:
    """A client; may be used by several threads.

    :param addresses: ``host:port`` of each NameNode's HTTP server.
    :param user: as whom; Hadoop believes it, unless it has Kerberos.
    :param timeout_s: a server that says nothing for so long counts as gone; one that is not there
        is waited for :data:`CONNECT_S` at most.
    """

    def __init__(self, addresses: Sequence[str], user: str, timeout_s: float) -> None:
        self._addresses, self._user, self._timeout_s = list(addresses), user, timeout_s

    @property
    def addresses(self) -> Sequence[str]:
        """Those of the NameNodes, who is active first, and last who was not there."""
        return self._addresses

    def open(self, path: str) -> bytes:
        """The content of a file.

        :raises FileNotFoundError: there is none.
        """
        return self._call("GET", "OPEN", path)

    def open_part(self, path: str, start: int, length: int) -> bytes:
        """A part of its content, less where it ends; as :meth:`open`."""
        return self._call("GET", "OPEN", path, offset=str(start), length=str(length))

    def write(self, path: str, data: bytes) -> None:
        """Make a file, and the folders above. A reader may see a part of it meanwhile."""
        self._call("PUT", "CREATE", path, data, overwrite="false")

    def rename(self, path: str, to: str, *, overwrite: bool) -> bool:
        """Give a file another name, in one step; False, and nothing changes, if it is taken.

        :param overwrite: takes it all the same.
        """
        options = "OVERWRITE" if overwrite else "NONE"
        try:
            told = self._call("PUT", "RENAME", path, destination=to, renameoptions=options)
        except RemoteError as error:
            if error.kind == "FileAlreadyExistsException" and not overwrite:
                return False
            raise
        # A server that does not know the option, as HttpFS, never overwrites, and tells.
        renamed = not told or bool(_read(told, "boolean"))
        if overwrite and not renamed:
            raise RemoteError("not renamed", "the server does not replace files: is it HttpFS?")
        return renamed

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or a folder. A missing one is fine."""
        self._call("DELETE", "DELETE", path, recursive=str(recursive).lower())

    def status(self, path: str) -> Mapping[str, Any]:
        """What HDFS knows of a file or folder: ``pathSuffix``, ``type`` (FILE, DIRECTORY),
        ``length`` and ``modificationTime``, in ms since 1970.

        :raises FileNotFoundError: there is none.
        """
        told = self._call("GET", "GETFILESTATUS", path)
        return _status(_read(told, "FileStatus"))

    def list(self, path: str) -> list[Mapping[str, Any]]:
        """What is right in a folder; of a file, itself.

        :raises FileNotFoundError: there is no such folder.
        """
        told = self._call("GET", "LISTSTATUS", path)
        return [_status(each) for each in _read(told, "FileStatuses", "FileStatus")]

    def _call(
        self, method: str, op: str, path: str, data: bytes | None = None, **arguments: str
    ) -> bytes:
        query = urlencode({"op": op, "user.name": self._user, **arguments})
        target = f"/webhdfs/v1{quote(path)}?{query}"
        problems: list[str] = []
        for address in list(self._addresses):
            try:
                answer = self._send(method, address, target, data)
            except _NextError as error:
                problems.append(str(error))
                self._ask_last(address)
            except RemoteError as error:
                if error.kind not in _NOT_ACTIVE:
                    raise
                problems.append(f"{address}: {error}")
            else:
                if self._addresses[0] != address:  # the next call begins with who is active
                    self._addresses = [address, *self._but(address)]
                return answer
        raise ConnectionError("; ".join(problems))

    def _ask_last(self, address: str) -> None:
        """Or each call would wait for it again."""
        self._addresses = [*self._but(address), address]

    def _but(self, address: str) -> Sequence[str]:
        return [each for each in self._addresses if each != address]

    def _send(self, method: str, address: str, target: str, data: bytes | None) -> bytes:
        """Ask one NameNode; go on at the DataNode that it names."""
        status, location, content = self._ask_name_node(method, address, target)
        if status in _REDIRECTS and location is not None:
            parts = urlsplit(location)
            if parts.scheme != "http":
                raise RemoteError("redirect", f"to {parts.scheme}, which is not spoken")
            target = f"{parts.path}?{parts.query}"
            try:
                connection = self._connected(parts.netloc)
                status, _, content = self._exchange(connection, method, target, data)
            except OSError as error:
                raise ConnectionError(f"the DataNode {parts.netloc}: {error}") from error
        elif data is not None and status < 400:
            raise RemoteError("no redirect", f"{address} has not told where data is to go")
        if status < 300:
            return content
        kind, message = _remote(content)
        if kind == "FileNotFoundException":
            raise FileNotFoundError(message)
        raise RemoteError(kind or f"HTTP {status}", message)

    def _ask_name_node(
        self, method: str, address: str, target: str
    ) -> tuple[int, str | None, bytes]:
        """:raises _NextError: it was not reached; or did not answer what changes nothing."""
        try:
            connection = self._connected(address)
        except OSError as error:
            raise _NextError(f"{address}: {error}") from error
        try:
            return self._exchange(connection, method, target, None)
        except OSError as error:
            if method == "GET":
                raise _NextError(f"{address}: {error}") from error
            self._ask_last(address)  # it may have done it all the same: the caller has to look
            raise ConnectionError(f"{address}: {error}") from error

    def _connected(self, address: str) -> HTTPConnection:
        """To be closed by the caller.

        :raises OSError: the server is not reached, and knows nothing of it.
        """
        connection = HTTPConnection(address, timeout=min(CONNECT_S, self._timeout_s))
        connection.connect()
        connection.sock.settimeout(self._timeout_s)
        return connection

    def _exchange(
        self, connection: HTTPConnection, method: str, target: str, data: bytes | None
    ) -> tuple[int, str | None, bytes]:
        """Send a request and read the answer; closes the connection."""
        try:
            connection.request(method, target, data, _BYTES if method == "PUT" else {})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status < 300 and answer.headers.get_content_type() == "text/html":
                raise _no_web_hdfs(content)  # the page of a proxy, which would be a file's content
            return answer.status, answer.getheader("Location"), content
        except HTTPException as error:
            raise ConnectionError(repr(error)) from error
        finally:
            connection.close()


class _NextError(ConnectionError):
    """A NameNode has not answered, and the next one may be asked the same."""


def _read(content: bytes, *names: str) -> Any:
    """What is under these names in an answer.

    :raises RemoteError: it is none of WebHDFS.
    """
    try:
        told = json.loads(content)
        for name in names:
            told = told[name]
    except (ValueError, LookupError, TypeError) as error:
        raise _no_web_hdfs(content) from error
    return told


def _status(told: Any) -> Mapping[str, Any]:
    """A file's status, as :meth:`WebHdfs.status` has it."""
    try:
        return {
            "pathSuffix": str(told["pathSuffix"]),
            "type": str(told["type"]),
            "length": int(told["length"]),
            "modificationTime": int(told["modificationTime"]),
        }
    except (ValueError, LookupError, TypeError) as error:
        raise _no_web_hdfs(json.dumps(told).encode()) from error


def _no_web_hdfs(content: bytes) -> RemoteError:
    return RemoteError("no WebHDFS", f"it answers {content[:200].decode(errors='replace')!r}")


def _remote(content: bytes) -> tuple[str, str]:
    try:
        told = json.loads(content)["RemoteException"]
        return str(told["exception"]), str(told["message"])
    except (ValueError, LookupError, TypeError):
        return "", content[:200].decode(errors="replace")
