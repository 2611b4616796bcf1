"""Where a checkpoint lies, with or without an Airflow connection to reach it.

``s3://my_conn@bucket/orders``, the notation of Airflow's ``ObjectStoragePath``, names the
connection ``my_conn`` and the URL ``s3://bucket/orders``. A name alone, ``orders``, is the folder
of that name in the checkpoint root of the connection ``continuous_default``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_provider_continuous.compat import AirflowNotFoundException
from engine.errors import ConfigError

DEFAULT: Final = "continuous_default"
"""The connection whose checkpoint root names are looked for in."""


@dataclass(frozen=True)
class CheckpointLocation:
    """A checkpoint's URL, and the Airflow connection that opens its storage, if one does."""

    url: str
    conn_id: str | None = None

    @classmethod
    def parse(cls, text: object, conn_id: str | None = None) -> CheckpointLocation:
        """Read a location as users write it.

        :param text: a path or URL, or an ``ObjectStoragePath``.
        :param conn_id: the storage connection; one inside ``text`` must be the same.
        :raises ConfigError: nothing is given, or two different connections are.
        """
        url = str(text).strip() if text is not None else ""
        if not url or url == "None":
            raise ConfigError(
                "checkpoint_location is empty.",
                hint="Give the folder or URL of the query's checkpoint; if it is a template, "
                "see what it rendered to.",
            )
        if _is_name(url):
            url = _below_root(url, default_root())
        parts = urlsplit(url)
        named = parts.netloc.rpartition("@")[0]
        if named:
            url = url.replace(f"{named}@", "", 1)
        if not parts.scheme and not url.startswith("/"):
            raise ConfigError(
                f"checkpoint_location {url!r} is relative.",
                hint="Workers and the triggerer share no working folder: give a whole path. A name "
                f"alone is looked for in the checkpoint root of the connection {DEFAULT!r}, if it "
                "has one.",
            )
        if named and conn_id and named != conn_id:
            raise ConfigError(
                f"checkpoint_location names the connection {named!r} and storage_conn_id "
                f"names {conn_id!r}.",
                hint="Keep one of them.",
            )
        return cls(url, named or conn_id)

    @property
    def text(self) -> str:
        """Both in one: what :meth:`parse` reads."""
        scheme, separator, rest = self.url.partition("://")
        if self.conn_id is None or not separator:
            return self.url
        return f"{scheme}://{self.conn_id}@{rest}"

    def storage_options(self) -> dict[str, Any]:
        """Return what fsspec needs to open the storage: of the connection, or nothing.

        Opening a connection is the business of the provider that owns the scheme, as for Airflow's
        ``ObjectStoragePath``; fsspec remembers what it has built the file system from.
        """
        if self.conn_id is None:
            return {}
        from airflow.sdk.io import attach

        return dict(attach(urlsplit(self.url).scheme, self.conn_id).fs.storage_options)


def default_root() -> str | None:
    """Return the checkpoint root of :data:`DEFAULT`, if there is one."""
    from airflow.sdk import BaseHook

    try:
        extra = BaseHook.get_connection(DEFAULT).extra_dejson
    except AirflowNotFoundException:
        return None
    return extra.get("checkpoint-root") or None


def named_location(location: str | None, name: str | None, root: str | None) -> str | None:
    """Return where a query's checkpoint is: its location, a name that stands for a folder in the
    root, or the folder of the query's own name in there."""
    if location is None:
        return _below_root(name, root) if name and root else None
    location = location.strip()
    return _below_root(location, root) if _is_name(location) else location


def _is_name(location: str) -> bool:
    return "/" not in location and ":" not in location


def _below_root(name: str, root: str | None) -> str:
    return f"{root.rstrip('/')}/{name}" if root and name else name
