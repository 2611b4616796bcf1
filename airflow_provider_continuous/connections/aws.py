"""``aws``: access keys, region, endpoint and role, as Airflow's Amazon provider has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_continuous.connections.fields import Fields
from engine.checkpoint.storage.s3_role import ROLE

_HINT = (
    "A query can use login, password, extra.aws_session_token, extra.region_name, "
    "extra.endpoint_url, extra.service_config (endpoint_url of s3 and sts), extra.role_arn, "
    "extra.assume_role_kwargs (RoleSessionName) and extra.verify. Without keys and role it takes "
    "what its machine offers."
)


@dataclass(frozen=True)
class _Aws:
    key: str | None
    secret: str | None
    token: str | None
    region: str | None
    endpoint: str | None
    sts: str | None
    role: str | None
    session_name: str | None
    verifies: bool


def of_delta(fields: Fields) -> dict[str, str]:
    """``storage.`` options of Delta's own client.

    :raises ConfigError: it cannot do what the connection says.
    """
    aws = _read(fields)
    if aws.role is not None and aws.key is not None:
        raise fields.wrong(
            f"has keys and a role: {fields.owner} assumes roles with what its machine offers alone",
            "Give the keys' user the rights, or take the keys out.",
        )
    if aws.role is not None and aws.sts is not None:
        raise fields.wrong(
            f"has an endpoint of STS, which cannot be told to {fields.owner}",
            "Say it in the query's environment, AWS_ENDPOINT_URL_STS, and S3's own in "
            "extra.service_config.",
        )
    found = {
        "AWS_ACCESS_KEY_ID": aws.key,
        "AWS_SECRET_ACCESS_KEY": aws.secret,
        "AWS_SESSION_TOKEN": aws.token,
        "AWS_REGION": aws.region,
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_FORCE_CREDENTIAL_LOAD": None if aws.role is None else "true",
        "AWS_IAM_ROLE_ARN": aws.role,
        "AWS_IAM_ROLE_SESSION_NAME": aws.session_name,
        "AWS_ALLOW_HTTP": "true" if (aws.endpoint or "").startswith("http://") else None,
        "AWS_ALLOW_INVALID_CERTIFICATES": None if aws.verifies else "true",
    }
    return {f"storage.{name}": value for name, value in found.items() if value is not None}


def of_iceberg(fields: Fields) -> dict[str, str]:
    """``catalog.s3.`` options: what Iceberg's own client opens the table's files with.

    :raises ConfigError: it cannot do what the connection says.
    """
    aws = _read(fields)
    if not aws.verifies or (aws.role is not None and aws.sts is not None):
        raise fields.wrong(
            f"has extra.verify, or an endpoint of STS beside a role: {fields.owner} cannot be told"
        )
    found = {
        "access-key-id": aws.key,
        "secret-access-key": aws.secret,
        "session-token": aws.token,
        "region": aws.region,
        "endpoint": aws.endpoint,
        "role-arn": aws.role,
        "role-session-name": aws.session_name,
    }
    return {f"catalog.s3.{name}": value for name, value in found.items() if value is not None}


def of_s3fs(fields: Fields) -> dict[str, str]:
    """Options of s3fs, for a checkpoint.

    :raises ConfigError: it cannot do what the connection says.
    """
    aws = _read(fields)
    found = {
        "key": aws.key,
        "secret": aws.secret,
        "token": aws.token,
        "client_kwargs.region_name": aws.region,
        "client_kwargs.endpoint_url": aws.endpoint,
        "client_kwargs.verify": None if aws.verifies else "false",
        f"{ROLE}.role_arn": aws.role,
        f"{ROLE}.session_name": aws.session_name,
        f"{ROLE}.endpoint_url": aws.sts if aws.role else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _read(fields: Fields) -> _Aws:
    services = _object(fields, "service_config")
    s3, sts = (_object_in(services, name) for name in ("s3", "sts"))
    role_arguments = _object(fields, "assume_role_kwargs")
    endpoint = fields.extra_text("endpoint_url")
    method = fields.extra_text("assume_role_method")
    verify = fields.extra_text("verify")
    found = _Aws(
        key=fields.take("login") or fields.extra_text("aws_access_key_id"),
        secret=fields.take("password") or fields.extra_text("aws_secret_access_key"),
        token=fields.extra_text("aws_session_token"),
        region=fields.extra_text("region_name"),
        endpoint=s3.pop("endpoint_url", None) or endpoint,
        sts=sts.pop("endpoint_url", None) or endpoint,
        role=fields.extra_text("role_arn"),
        session_name=role_arguments.pop("RoleSessionName", None),
        verifies=verify != "false",
    )
    s3.pop("bucket_name", None)  # where hooks write by default; a query says its own
    unknown = [
        *(f"service_config.{name}" for name in services if name not in ("s3", "sts")),
        *(f"service_config.s3.{name}" for name in s3),
        *(f"service_config.sts.{name}" for name in sts),
        *(f"assume_role_kwargs.{name}" for name in role_arguments),
        *(["assume_role_method"] if method not in (None, "assume_role") else []),
        *(["verify, a file"] if verify not in (None, "true", "false") else []),
    ]
    if unknown:
        raise fields.wrong(
            f"has in its extra {', '.join(unknown)}, which {fields.owner} does not know", _HINT
        )
    if (found.key is None) != (found.secret is None):
        raise fields.wrong("has only one of login (access key) and password (secret key)")
    fields.refuse_others()
    return found


def _object(fields: Fields, key: str) -> dict[str, Any]:
    value = fields.extra_value(key)
    if value is not None and not isinstance(value, Mapping):
        raise fields.wrong(f"has in extra.{key} what is no object")
    return dict(value or {})


def _object_in(outer: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = outer.get(key)
    return dict(value) if isinstance(value, Mapping) else {}
