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
    :param timeout_s: a server that says nothing for so long counts as gone.
    """

    def __init__(self, addresses: Sequence[str], user: str, timeout_s: float) -> None:
        self._addresses, self._user, self._timeout_s = list(addresses), user, timeout_s

    @property
    def addresses(self) -> Sequence[str]:
        """Those of the NameNodes, who is active first."""
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
            except ConnectionRefusedError as error:
                problems.append(f"{address}: {error}")
            except RemoteError as error:
                if error.kind not in _NOT_ACTIVE:
                    raise
                problems.append(f"{address}: {error}")
            else:
                if self._addresses[0] != address:  # the next call begins with who is active
                    self._addresses.sort(key=address.__ne__)
                return answer
        raise ConnectionError("; ".join(problems))

    def _send(self, method: str, address: str, target: str, data: bytes | None) -> bytes:
        """Ask one NameNode; go on at the DataNode that it names."""
        status, location, content = self._exchange(method, address, target, None)
        if status in _REDIRECTS and location is not None:
            parts = urlsplit(location)
            if parts.scheme != "http":
                raise RemoteError("redirect", f"to {parts.scheme}, which is not spoken")
            target = f"{parts.path}?{parts.query}"
            status, _, content = self._exchange(method, parts.netloc, target, data)
        elif data is not None and status < 400:
            raise RemoteError("no redirect", f"{address} has not told where data is to go")
        if status < 300:
            return content
        kind, message = _remote(content)
        if kind == "FileNotFoundException":
            raise FileNotFoundError(message)
        raise RemoteError(kind or f"HTTP {status}", message)

    def _exchange(
        self, method: str, address: str, target: str, data: bytes | None
    ) -> tuple[int, str | None, bytes]:
        connection = HTTPConnection(address, timeout=self._timeout_s)
        try:
            connection.request(method, target, data, _BYTES if method == "PUT" else {})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status < 300 and answer.headers.get_content_type() == "text/html":
                raise _no_web_hdfs(content)  # the page of a proxy, which would be a file's content
            return answer.status, answer.getheader("Location"), content
        except HTTPException as error:
            raise ConnectionError(f"{address}: {error!r}") from error
        finally:
            connection.close()


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
