"""A submission to an operator on Kubernetes, and templates of both operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.submission import Submission

HANDLE = Handle("spark-operator", "continuous-abc", 3, submitted_at=1_700_000_000.5)
NAME = "continuous-abc-3-6553f100"
KUBEFLOW: dict[str, Any] = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"labels": {"team": "orders"}},
    "spec": {
        "sparkVersion": "4.2.0",
        "image": "images.example/streams:1",
        "mainApplicationFile": "local:///opt/application.py",
        "sparkConf": {"spark.a": "template", "spark.b": "template"},
        "driver": {"memory": "1g", "serviceAccount": "spark"},
        "executor": {"memory": "1g", "instances": 1},
    },
}
APACHE: dict[str, Any] = {
    "apiVersion": "spark.apache.org/v1",
    "kind": "SparkApplication",
    "spec": {
        "pyFiles": "local:///opt/application.py",
        "runtimeVersions": {"sparkVersion": "4.2.0"},
    },
}
DOCUMENT: dict[str, Any] = {
    "name": "orders",
    "source": {"format": "tail", "options": {"path": "/in"}},
    "sink": {"format": "noop"},
    "checkpoint_location": "/checkpoint",
    "conf": {"spark.b": "query", "spark.master": "local", "spark.my.password": "s3cret"},
}


def submission(folder: Path, **more: Any) -> Submission:
    return Submission({**DOCUMENT, **more}, folder, variables={"TOKEN": "t0ken"})
