"""What is submitted, part by part and without secrets: a query's document, and where and how large
it runs.

=====================  =========================================================================
part                   says
=====================  =========================================================================
deploy                 the deploy mode, with the connection of the cluster
spark_submit.*         options of the submission; its ``conf`` is among the document's
spark_application.*    the template, where an operator on Kubernetes submits; names in lower case
environment.*          variables of the query: of each a digest, for its name may not show a secret
variables.*            those of them that the document names, as ``${REGION}``: they may change rows
=====================  =========================================================================

All but the last are settings. The rest is told by :mod:`engine.query.spec.described`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.settings import OPERATOR_MODE, ConnectionSettings
from engine.pipeline.identity import identity
from engine.query.spec import describe, is_setting
from engine.redaction.texts import encodable

DEPLOY: Final = "deploy"
_OWN: Final = (DEPLOY, "spark_submit", "spark_application", "environment", "variables")


def describe_submission(
    document: Mapping[str, Any], settings: ConnectionSettings
) -> dict[str, str]:
    """Return the parts.

    :raises ConfigError: an option of the submission is unknown.
    """
    parts = {DEPLOY: settings.deploy_mode}
    options = SubmitOptions.read(settings.spark_submit)
    if options.conf:
        document = {**document, "conf": {**(document.get("conf") or {}), **options.conf}}
    if settings.deploy_mode != "local":
        by_operator = settings.deploy_mode == OPERATOR_MODE
        conn_id = settings.kubernetes_conn_id if by_operator else settings.spark_conn_id
        parts[DEPLOY] += f" by {conn_id}"
        given = {name: str(getattr(options, name)) for name in options.given}
        parts |= {f"spark_submit.{name}": value for name, value in identity(given).items()}
        if by_operator:
            parts |= identity(dict(_leaves("spark_application", settings.spark_application)))
    text = json.dumps(document, default=str)
    for name, value in settings.environment.items():
        kind = "variables" if f"${{{name}}}" in text else "environment"
        parts |= {
            f"{kind}.{key}": _digest(told) for key, told in identity({name: str(value)}).items()
        }
    return {**describe(document), **parts}


def _leaves(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """What is in objects in each other, by its place; a list is one value."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _leaves(f"{place}.{key}", held)
    else:
        yield place, value if isinstance(value, str) else json.dumps(value)


def _digest(value: str) -> str:
    return hashlib.sha256(encodable(value).encode()).hexdigest()[:8]


def is_of_submission(part: str) -> bool:
    """Tell whether a part says where and how large a query runs, which earlier releases have not
    noted."""
    return part.partition(".")[0] in _OWN


def says_how_it_runs(part: str) -> bool:
    """Tell whether a part only says how the query runs, and not what it computes."""
    return is_setting(part) or (is_of_submission(part) and not part.startswith("variables."))
