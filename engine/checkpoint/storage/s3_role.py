"""A role of AWS for s3fs: its credentials are asked for anew before they end, for as long as the
query lasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.errors import ConfigError

ROLE: Final = "assume_role"
"""The option of s3fs that is ours: a mapping with ``role_arn`` and, if need be, ``session_name``
and STS's ``endpoint_url``."""
_KNOWN: Final = frozenset({"role_arn", "session_name", "endpoint_url"})


def with_role(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs in which a session stands for the role. The keys that are given, or
    what the machine offers, may assume it.

    :raises ConfigError: it names no role, or says more than can be done.
    """
    from aiobotocore.credentials import AioDeferredRefreshableCredentials
    from aiobotocore.session import AioSession

    found = dict(options)
    role = found.pop(ROLE)
    if not isinstance(role, Mapping) or "role_arn" not in role or set(role) - _KNOWN:
        raise ConfigError(
            f"Option {ROLE} of the checkpoint's storage cannot be used.",
            hint=f"It has role_arn, and may have {', '.join(sorted(_KNOWN - {'role_arn'}))}.",
        )
    client = {
        "aws_access_key_id": found.pop("key", None),
        "aws_secret_access_key": found.pop("secret", None),
        "aws_session_token": found.pop("token", None),
        "region_name": (found.get("client_kwargs") or {}).get("region_name"),
        "endpoint_url": role.get("endpoint_url"),
    }

    async def ask() -> dict[str, str]:
        async with AioSession().create_client("sts", **client) as sts:
            answer = await sts.assume_role(
                RoleArn=role["role_arn"], RoleSessionName=role.get("session_name", "continuous")
            )
        credentials = answer["Credentials"]
        return {
            "access_key": credentials["AccessKeyId"],
            "secret_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expiry_time": credentials["Expiration"].isoformat(),
        }

    session = AioSession()
    # The place where a session keeps credentials that it has found; it looks for none then.
    session._credentials = AioDeferredRefreshableCredentials(ask, "assume-role")
    return {**found, "session": session, "skip_instance_cache": True}
