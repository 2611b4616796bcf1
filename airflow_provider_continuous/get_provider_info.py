"""What Airflow is told about this provider: its modules, its connection type and its form.

Airflow loads this module while it is still reading its own configuration, so nothing here,
nor in the package's ``__init__``, may import airflow.

Source: ``airflow/provider_info.schema.json`` of Airflow 3.3.
"""

from __future__ import annotations

from typing import Any

_NAME = "Continuous queries"
_PACKAGE = "airflow_provider_continuous"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata (entry point ``apache_airflow_provider``)."""
    return {
        "package-name": "airflow-provider-continuous",
        "name": _NAME,
        "description": (
            "Run continuous PySpark queries from a DAG: start or adopt them, wait until an epoch "
            "has committed, drain them, prune their checkpoints."
        ),
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://spark.apache.org/docs/latest/streaming/index.html",
                "tags": ["apache"],
            }
        ],
        "operators": [_modules("operators.query", "operators.checkpoint")],
        "sensors": [_modules("sensors.epoch")],
        "hooks": [_modules("hooks.query", "hooks.checkpoint")],
        "triggers": [_modules("triggers.epoch", "triggers.query", "triggers.supervise")],
        "task-decorators": [
            {
                "name": "continuous_query",
                "class-name": f"{_PACKAGE}.decorators.continuous_query.continuous_query_task",
            }
        ],
        "connection-types": [
            {
                "connection-type": "continuous",
                "hook-class-name": f"{_PACKAGE}.hooks.query.ContinuousQueryHook",
                "hook-name": "Continuous query",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "port", "schema", "login", "password"],
                    "relabeling": {},
                    "placeholders": {},
                },
                "conn-fields": {
                    "deploy-mode": {
                        "label": "Deploy mode",
                        "description": (
                            "Where queries run. local: in processes of their own on the worker."
                        ),
                        "schema": {"type": "string", "enum": ["local"], "default": "local"},
                    },
                    "checkpoint-root": {
                        "label": "Checkpoint root",
                        "description": (
                            "A query that names no checkpoint_location gets the folder of its name "
                            "in here. Any URL that fsspec knows."
                        ),
                        "schema": {"type": ["string", "null"]},
                    },
                    "log-dir": {
                        "label": "Log folder",
                        "description": (
                            "Where the queries' output goes, on the worker's machine. Without it: "
                            "beside a local checkpoint, else in Airflow's own log folder."
                        ),
                        "schema": {"type": ["string", "null"]},
                    },
                    "conf": {
                        "label": "Configuration",
                        "description": (
                            "Settings for every query of this connection, as JSON. What a query "
                            "sets itself goes first."
                        ),
                        "schema": {"type": ["object", "null"]},
                    },
                },
            }
        ],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": _NAME,
        "python-modules": [f"{_PACKAGE}.{name}" for name in names],
    }
