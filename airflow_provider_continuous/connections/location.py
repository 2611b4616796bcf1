"""Where a checkpoint lies, with or without an Airflow connection to reach it.

``s3://my_conn@bucket/orders``, the notation of Airflow's ``ObjectStoragePath``, names the
connection ``my_conn`` and the URL ``s3://bucket/orders``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.errors import ConfigError


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
        parts = urlsplit(url)
        named = parts.netloc.rpartition("@")[0]
        if named:
            url = url.replace(f"{named}@", "", 1)
        if not parts.scheme and not url.startswith("/"):
            raise ConfigError(
                f"checkpoint_location {url!r} is relative.",
                hint="Workers and the triggerer share no working folder: give a whole path.",
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
