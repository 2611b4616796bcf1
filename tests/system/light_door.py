"""Who only looks: sensors, triggers, the page, commands. For an environment without Spark.

``python light_door.py CHECKPOINTS QUERY`` looks at the checkpoint ``QUERY`` below the folder
``CHECKPOINTS``: it has committed epoch 2 and no other behind it, and its query has failed. Prints a
JSON object of what was seen, one entry for each door. Runs by its path: the tests are not installed
there. With ``--blocked``, what the extra ``[engine]`` brings is here and cannot be imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
import os
import pkgutil
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ABSENT = {"cloudpickle", "numpy", "pandas", "py4j", "pyarrow", "pyspark"}


class Blocked:
    """Finds nothing of the extra, and says so as Python does."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def modules() -> int:
    """How many modules the provider has: each can be imported, or names Airflow's OpenLineage."""
    import airflow_provider_continuous as package

    count = 0
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module.name)
            count += 1
            continue
        assert module.name.startswith(f"{package.__name__}.openlineage."), module.name
    return count


def sensor(checkpoint: str) -> bool:
    from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor

    waits = EpochCommittedSensor(
        task_id="wait", checkpoint_location=checkpoint, epoch=2, mode="poke", timeout=5
    )
    context: Any = {"ti": SimpleNamespace(task=waits)}
    return bool(waits.execute(context))


def trigger(checkpoint: str) -> dict[str, Any]:
    from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger

    async def first() -> Any:
        return (await anext(EpochCommittedTrigger(checkpoint, 2).run())).payload

    found: dict[str, Any] = asyncio.run(first())
    return found


def page(checkpoint: str) -> list[int]:
    """Status codes of the pages about a user that Airflow has let in."""
    from airflow import settings
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi.testclient import TestClient

    from airflow_provider_continuous.plugins.access import viewer
    from airflow_provider_continuous.plugins.pages import create_app

    import_all_models()
    Base.metadata.create_all(settings.engine)  # the page looks for connections
    app = create_app()
    anybody = SimpleNamespace(
        sees_roots=True,
        edits_all_dags=True,
        seen=list,
        may_read_logs=lambda _: True,
        may_act=lambda _: False,
    )
    app.dependency_overrides[viewer] = lambda: anybody
    client = TestClient(app)
    return [
        client.get(path, params={"at": checkpoint}).status_code
        for path in ("/", "/query", "/queries.json", "/query.json")
    ]


def command(*arguments: str) -> dict[str, Any]:
    from engine.commands.command_line import main

    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main([*arguments, "--json"])
    return {"code": code, **json.loads(out.getvalue())}


def imported() -> str:
    """What Python says who wants the engine."""
    from engine.errors import ConfigError

    try:
        from engine import write_stream
    except ConfigError as error:
        return str(error)
    raise AssertionError(f"{write_stream} is here without an engine")


def started(checkpoint: str) -> str:
    """What Airflow says when a query is to start here."""
    from airflow_provider_continuous.hooks.query import ContinuousQueryHook
    from engine.errors import ConfigError

    hook = ContinuousQueryHook()
    source, sink = {"format": "rate"}, {"format": "noop"}
    try:
        hook.submit(
            hook.specification({"source": source, "sink": sink, "checkpoint_location": checkpoint})
        )
    except ConfigError as error:
        return str(error)
    raise AssertionError("a query has started without an engine")


def main(checkpoints: str, query: str) -> dict[str, Any]:
    os.environ["AIRFLOW__CONTINUOUS__CHECKPOINT_ROOTS"] = checkpoints
    checkpoint = str(Path(checkpoints) / query)
    spec = Path(checkpoints) / "spec.yaml"
    spec.write_text("{source: {format: rate}, sink: {format: noop}, checkpoint_location: /nowhere}")
    return {
        "modules": modules(),
        "sensor": sensor(checkpoint),
        "trigger": trigger(checkpoint),
        "page": page(checkpoint),
        "status": command("status", checkpoint),
        "epochs": command("epochs", checkpoint),
        "run": command("run", str(spec)),
        "doctor": command("doctor"),
        "engine": imported(),
        "started": started(str(Path(checkpoints) / "new")),
        "loaded": sorted(ABSENT & set(sys.modules)),
    }


if __name__ == "__main__":
    where = [word for word in sys.argv[1:] if word != "--blocked"]
    if "--blocked" in sys.argv:
        sys.meta_path.insert(0, Blocked())
    else:
        there = [package for package in sorted(ABSENT) if find_spec(package)]
        assert not there, f"installed after all: {there}"
    print(json.dumps(main(*where)))
