"""What connections say in tests, and what becomes of a specification that names them."""

from __future__ import annotations

from typing import Any

from airflow_provider_continuous.hooks.query import ContinuousQueryHook

SECRET = "c0rrect-${HOME}-h0rse"
KAFKA = {
    "bootstrap.servers": "broker:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": SECRET,
    "group.id": "orders",
    "auto.offset.reset": "earliest",
    "socket.timeout.ms": 5000,
    "socket.keepalive.enable": True,
}
AWS = {
    "conn_type": "aws",
    "login": "AKIA",
    "password": SECRET,
    "extra": {"region_name": "eu-central-1", "endpoint_url": "http://s3:9000"},
}


def resolved(document: Any) -> dict[str, Any]:
    """As the query's process would get it."""
    return ContinuousQueryHook()._for_the_query(document)
