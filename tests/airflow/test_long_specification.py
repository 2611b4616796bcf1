"""A specification that is longer than a variable can be, where a driver gets it as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ConfigError


def test_it_is_refused_on_a_standalone_cluster(connection: Any, spec: dict[str, Any]) -> None:
    connection("a_cluster", "spark", host="spark://127.0.0.1:1", extra={"deploy-mode": "cluster"})
    extra = {"deploy-mode": "spark-submit", "spark-conn-id": "a_cluster"}
    connection("continuous_default", "continuous", extra=extra)
    hook = ContinuousQueryHook()
    document = hook.specification({**spec, "sql": f"SELECT value{' ' * 128 * 1024}FROM source"})

    with pytest.raises(ConfigError, match=r"CONTINUOUS_SPECIFICATION has 13\d{4} bytes.* shorter"):
        hook.submit(document)

    assert not Path(spec["checkpoint_location"] + ".logs").exists(), "nothing was started"
