"""What Airflow is told about this provider: its modules, its connection type and its form.

Airflow loads this module while it is still reading its own configuration, so nothing here,
nor in the package's ``__init__``, may import airflow.

Source: ``airflow/provider_info.schema.json`` of Airflow 3.3.
"""

from __future__ import annotations

from typing import Any

_NAME = "Continuous queries"
_PACKAGE = "airflow_provider_continuous"

_GUIDES = (
    "kafka-to-delta",
    "airflow/deploy-modes",
    "airflow/life-cycle",
    "airflow/connections",
    "airflow/checkpoints",
    "airflow/sensors",
    "airflow/triggers",
    "airflow/tables",
    "airflow/native-queries",
    "airflow/docker",
)

_CONFIGURATION = {
    "description": "Continuous queries: what is shown of them, and where their logs go.",
    "options": {
        "checkpoint_roots": {
            "description": (
                "Folders or URLs, separated by commas, whose checkpoints the page Continuous "
                "queries and ``airflow continuous list`` show, besides the checkpoint roots of "
                "all connections of type continuous. ``s3://my_conn@bucket/path`` opens one with "
                "a connection."
            ),
            "version_added": "0.1.0",
            "type": "string",
            "example": "/data/checkpoints, s3://my_conn@bucket/checkpoints",
            "default": "",
        },
        "log_dir": {
            "description": (
                "Where the queries' output goes, on the worker's machine, unless the connection "
                "says it. Empty: beside a local checkpoint, else in Airflow's own log folder."
            ),
            "version_added": "0.1.0",
            "type": "string",
            "example": "/var/log/continuous",
            "default": "",
        },
        "log_format": {
            "description": (
                "How queries log whose specification does not say it: text, or json with query, "
                "run, generation, epoch and partition."
            ),
            "version_added": "0.2.0",
            "type": "string",
            "example": "json",
            "default": "text",
        },
        "python": {
            "description": (
                "The Python that runs queries on the worker's machine, unless the connection says "
                "it: of a virtual environment with this package and PySpark. Empty: Airflow's own."
            ),
            "version_added": "0.2.0",
            "type": "string",
            "example": "/opt/queries/bin/python",
            "default": "",
        },
        "end_with_worker": {
            "description": (
                "Whether drivers may be started on the worker's machine also where they end with "
                "Airflow's worker: in a container or a pod of its own, or in a systemd unit that "
                "ends its control group."
            ),
            "version_added": "0.2.0",
            "type": "boolean",
            "example": None,
            "default": "False",
        },
        "page_refresh": {
            "description": (
                "Seconds after which the pages that show the queries look again; 0: never."
            ),
            "version_added": "0.1.0",
            "type": "integer",
            "example": None,
            "default": "5",
        },
    },
}


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
                "how-to-guide": [f"/docs/{guide}.md" for guide in _GUIDES],
                "logo": "/integration-logos/continuous.svg",
                "tags": ["software"],
            }
        ],
        "operators": [_modules("operators.query", "operators.checkpoint", "operators.table")],
        "sensors": [
            _modules("sensors.epoch", "sensors.offsets", "sensors.health", "sensors.watermark")
        ],
        "hooks": [_modules("hooks.query", "hooks.checkpoint")],
        "triggers": [
            _modules("triggers.epoch", "triggers.query", "triggers.offsets", "triggers.health"),
            _modules("triggers.start"),
            _modules(
                "triggers.events", "triggers.periods", "triggers.supervise", "triggers.watermark"
            ),
        ],
        "asset-uris": [
            {
                "schemes": ["continuous"],
                "handler": f"{_PACKAGE}.assets.uris.sanitize_uri",
                "factory": f"{_PACKAGE}.assets.uris.create_asset",
                "to_openlineage_converter": f"{_PACKAGE}.assets.uris.convert_asset_to_openlineage",
            }
        ],
        "extra-links": [
            f"{_PACKAGE}.links.query.QueryPageLink",
            f"{_PACKAGE}.links.query.CheckpointLink",
            f"{_PACKAGE}.links.query.SparkUiLink",
        ],
        "notifications": [f"{_PACKAGE}.notifications.query.ContinuousQueryNotifier"],
        "cli": [f"{_PACKAGE}.cli.definition.cli_commands"],
        "config": {"continuous": _CONFIGURATION},
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
                            "Where queries run. local: in processes of their own on the worker. "
                            "spark-submit: on the cluster of a Spark connection. "
                            "spark-operator: as a SparkApplication on Kubernetes."
                        ),
                        "schema": {
                            "type": "string",
                            "enum": ["local", "spark-submit", "spark-operator"],
                            "default": "local",
                        },
                    },
                    "spark-conn-id": {
                        "label": "Spark connection",
                        "description": (
                            "For spark-submit: the connection of type spark that says the master "
                            "and the deploy mode. Without it: spark_default."
                        ),
                        "schema": {"type": ["string", "null"]},
                    },
                    "spark_submit": {
                        "label": "Submission",
                        "description": (
                            "For spark-submit, as JSON: py_files, packages, files, jars, "
                            "driver_memory, executor_memory, conf and others."
                        ),
                        "schema": {"type": ["object", "null"]},
                    },
                    "kubernetes-conn-id": {
                        "label": "Kubernetes connection",
                        "description": (
                            "For spark-operator: the connection of type kubernetes. Without it: "
                            "kubernetes_default."
                        ),
                        "schema": {"type": ["string", "null"]},
                    },
                    "spark-application": {
                        "label": "SparkApplication",
                        "description": (
                            "For spark-operator, as JSON: what all queries' applications have in "
                            "common, with apiVersion, kind and spec."
                        ),
                        "schema": {"type": ["object", "null"]},
                    },
                    "environment": {
                        "label": "Environment",
                        "description": "Environment variables of every query, as JSON.",
                        "schema": {"type": ["object", "null"]},
                    },
                    # Airflow hides fields whose names look like secrets, and saves what it shows.
                    "environment-from": {
                        "label": "Environment from connections",
                        "description": (
                            "Environment variables whose values are in connections, as JSON: "
                            '{"KAFKA_PASSWORD": "kafka_default.password"}.'
                        ),
                        "schema": {"type": ["object", "null"]},
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
                    "python": {
                        "label": "Python",
                        "description": (
                            "The Python that runs queries on the worker's machine, of a virtual "
                            "environment with this package and PySpark. Without it: Airflow's own."
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
