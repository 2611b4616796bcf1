"""``wasb`` and ``adls``: an account's key, a token, or an application's id and secret."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow_provider_continuous.connections.fields import Fields


def of_delta(fields: Fields) -> dict[str, str]:
    """``storage.`` options of Delta's own client.

    :raises ConfigError: it cannot do what the connection says.
    """
    names = {"account_key": "account_key", "sas_token": "sas_key"}
    found = {f"azure_storage_{names.get(key, key)}": text for key, text in _read(fields).items()}
    return {f"storage.{name}": value for name, value in found.items()}


def of_adlfs(fields: Fields) -> dict[str, str]:
    """Options of adlfs, for a checkpoint.

    :raises ConfigError: it cannot do what the connection says.
    """
    return _read(fields)


def _read(fields: Fields) -> dict[str, str]:
    host, login, password = (fields.take(part) for part in ("host", "login", "password"))
    tenant = fields.extra_text("tenant_id")
    # Names an account, in a whole address or alone.
    account = (urlsplit(host).hostname if host and "//" in host else host or "") or ""
    account = account.partition(".")[0]
    found = {
        "account_name": account or (login if tenant is None else None),
        "account_key": fields.extra_text("shared_access_key") or (None if tenant else password),
        "sas_token": fields.extra_text("sas_token"),
        "tenant_id": tenant,
        "client_id": login if tenant else None,
        "client_secret": password if tenant else None,
    }
    fields.refuse_others()
    if not found["account_name"]:
        raise fields.wrong("names no account", "Put it into login, or its address into host.")
    return {name: value for name, value in found.items() if value}
