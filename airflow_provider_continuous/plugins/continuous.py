"""ContinuousPlugin: the pages about queries in Airflow's navigation, and the listener.

Every process of Airflow loads this module, so it brings nothing that only the api-server has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_continuous.compat import RELEASE, conf
from airflow_provider_continuous.links.query import PAGES
from airflow_provider_continuous.listeners import query as query_listener

if TYPE_CHECKING or RELEASE >= (3, 3):
    from airflow.sdk.plugins_manager import AirflowPlugin
else:
    from airflow.plugins_manager import AirflowPlugin

Message = MutableMapping[str, Any]


async def pages(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Serve the pages (ASGI); they are built at the first request."""
    await _application()(scope, receive, send)


@cache
def _application() -> Any:
    from airflow_provider_continuous.plugins.pages import create_app

    return create_app()


def _address() -> str:
    base = urlsplit(str(conf.get("api", "base_url", fallback="") or "")).path.rstrip("/")
    return f"{base}{PAGES}/"


_PAGES: list[Any] = [{"name": "Continuous queries", "app": pages, "url_prefix": PAGES}]
_VIEWS: list[Any] = [
    {
        "name": "Continuous queries",
        "href": _address(),
        "destination": "nav",
        "category": "browse",
        "url_route": "continuous",
    }
]
_LISTENERS: list[Any] = [query_listener]


class ContinuousPlugin(AirflowPlugin):
    """Entry point ``airflow.plugins``."""

    name = "continuous"
    fastapi_apps = _PAGES
    external_views = _VIEWS
    listeners = _LISTENERS
