"""What a cluster's manager is asked about a driver."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from airflow_provider_continuous.deploy.contract import DriverStatus, Handle

ANSWER_S = 5.0
"""A manager answers within so many seconds, or counts as out of reach."""
WORDS_BYTES_MAX = 16 * 1024
REFUSES = (401, 403)
"""A manager's answers in HTTP to whom it tells nothing."""
_STREAMS = ("stderr", "stdout")
"""Of a driver on a cluster Java writes to the first one, and Spark what Python writes to the second
one, errors too."""
_MOVED = (307, 308)
_OUTPUT_BYTES_MAX = 1024 * 1024


class Manager(ABC):
    """A kind of cluster."""

    id_is_proof = True
    """Whether there is, or was, a driver once :meth:`find` tells its id."""

    def check(self) -> None:  # noqa: B027
        """Warn of what will keep a driver from being found."""

    def marks(self, handle: Handle) -> Mapping[str, str]:
        """Return settings that make the driver known by the submission's name."""
        return {}

    @abstractmethod
    def find(self, handle: Handle) -> str | None:
        """Return the id of a submission's driver, None if it is not known (yet)."""

    @abstractmethod
    def status(self, driver_id: str) -> DriverStatus:
        """Ask once. A manager that does not answer is no error: then it is UNKNOWN."""

    @abstractmethod
    def kill(self, driver_id: str, handle: Handle) -> bool:
        """Ask the manager to kill a driver; tell whether it could be asked. Returns at once."""

    @abstractmethod
    def last_words(self, driver_id: str, handle: Handle) -> str:
        """Return the end of what a driver has written on the cluster, what Python has written
        last, with its secrets; :data:`WORDS_BYTES_MAX` at most of each of its streams. Empty where
        that cannot be read."""


def both_ends(end_of: Callable[[str], str]) -> str:
    """Return what both streams of a driver end with, what Python has written last.

    :param end_of: of one stream, by its name on the cluster.
    """
    return "\n".join(end_of(stream) for stream in _STREAMS)


def said(handle: Handle, pattern: re.Pattern[str]) -> str | None:
    """Return the last thing of this pattern that a submission's output has, if it is here."""
    try:
        with Path(handle.log).open("rb") as log:
            output = log.read(_OUTPUT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return None
    found = pattern.findall(output)
    return found[-1] if found else None


class ManagerError(Exception):
    """A manager did not answer.

    :param status: of HTTP, if it has answered and refused.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


def ask(url: str, *, put: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Ask over HTTP; return the JSON object of the answer, empty if it has none.

    :param put: what to put there; None: only read.
    :raises ManagerError: there was no such answer.
    """
    body = None if put is None else json.dumps(put).encode()
    text = _answer(url, "application/json", body)
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ManagerError(f"{url} does not answer: {error}") from error
    if not isinstance(found, dict):
        raise ManagerError(f"{url} answers something else")
    return found


def ask_for_text(url: str) -> str:
    """Ask over HTTP; return the text of the answer, without what is no text in it.

    :raises ManagerError: there was no answer.
    """
    return _answer(url, "text/plain").decode(errors="replace")


def web_address(told: str) -> str:
    """Return the address of a web page that is perhaps told without ``http://``, or with a slash at
    its end."""
    address = told.strip().rstrip("/")
    return address if "://" in address else f"http://{address}"


def _answer(url: str, accept: str, put: bytes | None = None, moves: int = 3) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ManagerError(f"{url} is no address of a web page")
    headers = {"Accept": accept, "Content-Type": "application/json"}
    method = "GET" if put is None else "PUT"
    request = urllib.request.Request(url, put, headers, method=method)  # noqa: S310  # checked
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            to = error.headers.get("Location")
            if error.code in _MOVED and to and moves:  # Python follows with GET alone
                return _answer(urljoin(url, to), accept, put, moves - 1)
            raise ManagerError(f"{url} answers {error.code}", error.code) from error
    except OSError as error:  # refused, or silent
        raise ManagerError(f"{url} does not answer: {error}") from error
    except HTTPException as error:  # it speaks something else, or was cut off
        raise ManagerError(f"{url} does not answer in HTTP: {error!r}") from error
