"""``google_cloud_platform``: a service account's key, or what the machine offers."""

from __future__ import annotations

import json

from airflow_provider_continuous.connections.fields import Fields


def of_delta(fields: Fields) -> dict[str, str]:
    """``storage.`` options of Delta's own client.

    :raises ConfigError: it cannot do what the connection says.
    """
    path, key, _ = _read(fields)
    found = {"google_service_account": path, "google_service_account_key": key}
    return {f"storage.{name}": value for name, value in found.items() if value is not None}


def of_gcsfs(fields: Fields) -> dict[str, str]:
    """Options of gcsfs, for a checkpoint.

    :raises ConfigError: it cannot do what the connection says.
    """
    path, key, project = _read(fields)
    found = {} if project is None else {"project": project}
    if key is not None:
        parts = json.loads(key)
        return found | {f"token.{name}": fields.text(name, parts[name]) for name in parts}
    return found if path is None else {**found, "token": path}


def _read(fields: Fields) -> tuple[str | None, str | None, str | None]:
    """The key's file, the key as JSON, and the project."""
    path, key = fields.extra_text("key_path"), fields.extra_value("keyfile_dict")
    project = fields.extra_text("project")
    fields.extra_value("scope")  # of hooks: storage has its own
    fields.extra_value("num_retries")
    fields.refuse_others()
    if isinstance(key, dict):
        key = json.dumps(key)
    try:
        is_object = key is None or isinstance(json.loads(key), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise fields.wrong("has in extra.keyfile_dict what is no JSON object")
    if path is not None and key is not None:
        raise fields.wrong("has both extra.key_path and extra.keyfile_dict", "Keep one of them.")
    return path, key, project
