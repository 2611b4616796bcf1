"""The pages about queries: all of them, and one; HTML and JSON.

Served by Airflow's api-server to users that Airflow has logged in, who see the queries of the DAGs
that they may see. Only checkpoints are read that a task has told of, or that lie below a configured
root; errors are shown without secrets. The pages load nothing from elsewhere, and a content
security policy keeps it so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jinja2
from airflow.api_fastapi.app import get_auth_manager
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from fastapi.staticfiles import StaticFiles
from pydantic import BeforeValidator
from starlette.exceptions import HTTPException as AnyHTTPException

from airflow_provider_continuous import configuration
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.plugins import formats
from airflow_provider_continuous.plugins.access import Person, Viewer
from airflow_provider_continuous.plugins.actions import add_actions
from airflow_provider_continuous.plugins.details import query_details
from airflow_provider_continuous.plugins.locations import Location
from airflow_provider_continuous.plugins.queries import find_query, look_at_all, rows_of
from airflow_provider_continuous.plugins.selecting import COLUMNS, Wanted, group_of, select
from airflow_provider_continuous.plugins.series import SHOWN_FIRST, WINDOWS, Window
from airflow_provider_continuous.view.addresses import quoted
from airflow_provider_continuous.view.known import KnownQuery
from airflow_provider_continuous.view.roots import NotBelowRootsError
from engine.errors import ConfigError, ContinuousError
from engine.redaction.logs import redact
from engine.redaction.texts import encodable

_HERE = Path(__file__).parent
UpTo = Annotated[int | None, BeforeValidator(lambda text: text or None), Query(ge=0)]
"""An epoch; an empty field of a form is none."""
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)

_BODY = (
    "The body must be a JSON object, of Content-Type application/json: {} if nothing is to be said."
)
_PRIVATE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Of all answers: they may hold records and logs."""


def create_app() -> FastAPI:
    """Build the application; the plugin mounts it."""
    app = FastAPI(
        title="Continuous queries",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=_AnyTextAsJson,
    )
    app.mount("/static", StaticFiles(directory=_HERE / "static"))
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _misread)
    app.add_exception_handler(ConfigError, _misconfigured)
    html = partial(_html, _templates())
    app.state.html = html

    # Not async: reading checkpoints blocks, and FastAPI runs these on threads.
    @app.get("/")
    def queries(
        request: Request,
        person: Person,
        text: str = "",
        state: str = "",
        dag: str = "",
        sort: str = "state",
        page: int = 1,
    ) -> HTMLResponse:
        listing = _listing(person)
        rows, wanted = rows_of(listing), Wanted(text, state, dag, sort, page)
        groups = [group_of(row["state"]) for row in rows]
        dags = {owner["dag_id"] for row in rows for owner in row["owners"]}
        return html(
            "queries.html",
            request,
            all=rows,
            roots=listing["roots"],
            absent_roots=listing["absent_roots"],
            absent=listing["absent"],
            counts={group: groups.count(group) for group in groups},
            states=sorted({row["state"] for row in rows}),
            dags=sorted(dags),
            wanted=wanted,
            columns=COLUMNS,
            **select(rows, wanted),
        )

    @app.get("/query")
    def query(
        request: Request,
        person: Person,
        at: Location,
        window: Window = SHOWN_FIRST,
        epoch: UpTo = None,
    ) -> HTMLResponse:
        found = visible(person, at)
        return html(
            "query.html",
            request,
            query=_details(person, found, window, epoch),
            windows=list(WINDOWS),
            may_act=person.may_act(found),
        )

    @app.get("/queries.json")
    def queries_json(person: Person) -> dict[str, Any]:
        return _listing(person)

    @app.get("/query.json")
    def query_json(
        person: Person, at: Location, window: Window = SHOWN_FIRST, epoch: UpTo = None
    ) -> dict[str, Any]:
        return _details(person, visible(person, at), window, epoch)

    add_actions(app, visible)
    return app


def visible(person: Viewer, location: str) -> KnownQuery:
    """Return the query of a checkpoint, if there is one that the person may see.

    :raises HTTPException: 404, without telling which; 502 if it cannot be opened.
    """
    try:
        return find_query(location, person.seen)
    except NotBelowRootsError as error:
        raise HTTPException(404, str(error)) from None
    except ContinuousError as error:
        raise HTTPException(502, redact(str(error))) from None


def _listing(person: Viewer) -> dict[str, Any]:
    listing = look_at_all(person.seen)
    if not person.sees_roots:
        told = [problem for problem in listing["problems"] if problem.get("owners")]
        listing = {**listing, "roots": [], "absent_roots": [], "problems": told}
    return listing


def _details(
    person: Viewer, query: KnownQuery, window: Window, up_to: int | None
) -> dict[str, Any]:
    rights = {
        "with_records": person.may_read_logs(query),
        "any_letters": person.edits_all_dags,
    }
    look = partial(query_details, query, **rights, window=window, up_to=up_to)
    # A tab asks again and again: while one look hangs, it is this one that is waited for.
    key = "details", query, window, up_to, *rights.values()
    try:
        return POOL.within(place_of(query.location), look, key=key)
    except ContinuousError as error:
        raise HTTPException(502, redact(str(error))) from None


class _AnyTextAsJson(JSONResponse):
    """In ASCII: an error may name a file whose name is no text, which UTF-8 could not spell."""

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers({**(headers or {}), **_PRIVATE})

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


async def _refused(request: Request, error: Exception) -> Response:
    """For people: who is not logged in gets to the login, everything else on a page of its own."""
    assert isinstance(error, AnyHTTPException)
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        answer = {"detail": error.detail}
        return _AnyTextAsJson(answer, error.status_code, getattr(error, "headers", None))
    if error.status_code == 401:
        login = get_auth_manager().get_url_login(next_url=str(request.url))
        return RedirectResponse(login, 303)
    html: Any = request.app.state.html
    page = html("error.html", request, status=error.status_code, detail=error.detail)
    page.status_code = error.status_code
    return page  # type: ignore[no-any-return]


async def _misread(request: Request, error: Exception) -> Response:
    """An address that asks for what there is not, such as a window of history."""
    assert isinstance(error, RequestValidationError)
    told = [
        _BODY
        if each["loc"][0] == "body"
        else f"{each['loc'][-1]}={each['input']!r}: {each['msg']}."
        for each in error.errors()
    ]
    return await _refused(request, HTTPException(422, " ".join(told)))


async def _misconfigured(request: Request, error: Exception) -> Response:
    """Without a page, which needs the setting that is wrong."""
    return PlainTextResponse(encodable(redact(str(error))), 500)


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=formats.finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=formats.number,
        ago=formats.ago,
        duration=formats.duration,
        moment=formats.moment,
        size=formats.size,
        at=quoted,
    )
    return environment


def _html(
    environment: jinja2.Environment, template: str, request: Request, **values: Any
) -> HTMLResponse:
    root = str(request.scope.get("root_path", ""))
    text = environment.get_template(template).render(
        **values,
        root=root,
        airflow=root.removesuffix("/continuous"),
        refresh_s=configuration.page_refresh_s(),
    )
    headers = {
        "Content-Security-Policy": _POLICY,
        "Referrer-Policy": "same-origin",
        **_PRIVATE,
    }
    return HTMLResponse(encodable(text), headers=headers)
