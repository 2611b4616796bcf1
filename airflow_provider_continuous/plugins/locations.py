"""The location of a checkpoint that an address asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from airflow_provider_continuous.view.addresses import asked_for


def _location(request: Request, at: Annotated[str, Query()]) -> str:
    """:param at: without the bytes that are no UTF-8; it must be there."""
    return asked_for(request.scope["query_string"], "at") or at


Location = Annotated[str, Depends(_location)]
"""The parameter ``at`` of a route."""
