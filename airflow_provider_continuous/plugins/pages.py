"""The pages about queries: all of them, and one with its epochs and pins; HTML and JSON.

Served by Airflow's api-server to users that Airflow has logged in and who may see its jobs. They
only read, and only checkpoints below the configured roots; errors are shown without secrets. The
pages load nothing from elsewhere, and a content security policy keeps it so.
"""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse

from airflow_provider_continuous import configuration
from airflow_provider_continuous.plugins import formats
from airflow_provider_continuous.plugins.queries import all_queries, query_details, shown_roots
from airflow_provider_continuous.view.roots import NotBelowRootsError
from engine.errors import ContinuousError
from engine.redaction.logs import redact

_POLICY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def create_app() -> FastAPI:
    """Build the application; the plugin mounts it."""
    app = FastAPI(
        title="Continuous queries",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(requires_access_view(AccessView.JOBS))],
    )
    html = partial(_html, _templates())

    # Not async: reading checkpoints blocks, and FastAPI runs these on threads.
    @app.get("/")
    def queries(request: Request) -> HTMLResponse:
        return html("queries.html", request, listing=all_queries(shown_roots()))

    @app.get("/query")
    def query(request: Request, at: str) -> HTMLResponse:
        return html("query.html", request, query=_details(at))

    @app.get("/queries.json")
    def queries_json() -> dict[str, Any]:
        return all_queries(shown_roots())

    @app.get("/query.json")
    def query_json(at: str) -> dict[str, Any]:
        return _details(at)

    return app


def _details(location: str) -> dict[str, Any]:
    try:
        return query_details(shown_roots(), location)
    except NotBelowRootsError as error:
        raise HTTPException(404, str(error)) from None
    except ContinuousError as error:
        raise HTTPException(502, redact(str(error))) from None


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=formats.number, ago=formats.ago, duration=formats.duration, moment=formats.moment
    )
    return environment


def _html(
    environment: jinja2.Environment, template: str, request: Request, **values: Any
) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    text = environment.get_template(template).render(
        **values,
        nonce=nonce,
        root=request.scope.get("root_path", ""),
        refresh_s=configuration.page_refresh_s(),
    )
    headers = {
        "Content-Security-Policy": _POLICY.format(nonce=nonce),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(text, headers=headers)
