"""What is sent along with a submission, and what of it counts there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.plan import make_plan
from airflow_provider_continuous.deploy.shipping import zip_modules
from airflow_provider_continuous.deploy.submission import Submission


@pytest.fixture
def a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of that name: YARN, in cluster mode."""
    said = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_A_CLUSTER", json.dumps(said))


def test_a_folder_without_init_is_a_package_in_a_zip_too(tmp_path: Path) -> None:
    """Many a Python looks for it as an entry of its own."""
    for name in ("shop/orders/prices.py", "shop/pictures/logo.png", "single.py"):
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("ANSWER = 42")

    sent = zip_modules(tmp_path / "lib", tmp_path / "shelf")

    uses = "import single; from shop.orders import prices; print(prices.ANSWER)"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(sent)!r}); {uses}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("42\n", "")


@pytest.mark.usefixtures("a_cluster")
@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("spark.submit.pyFiles", "--py-files"),
        ("spark.files", "--files"),
        ("spark.jars.packages", "--packages"),
    ],
)
def test_what_the_query_sends_along_by_a_setting(
    setting: str,
    option: str,
    spec: dict[str, Any],
    tmp_path: Path,
) -> None:
    """spark-submit looks at no setting that an option says as well, as ours do."""
    spec["conf"] = {setting: "own:a:1,own:b:1"}
    options = SubmitOptions.read({"packages": "org.example:thing:1"})

    command = make_plan(
        Submission(spec, tmp_path / "logs"), Cluster.find("a_cluster", options), options
    ).command

    assert command[command.index(option) + 1].endswith(",own:a:1,own:b:1")
    assert not any(word.startswith(f"{setting}=") for word in command)


@pytest.mark.usefixtures("a_cluster")
@pytest.mark.parametrize(
    ("setting", "option", "given"),
    [
        ("spark.submit.pyFiles", "--py-files", {}),
        ("spark.files", "--files", {}),
        ("spark.jars", "--jars", {"jars": "a.jar"}),
    ],
)
def test_an_address_with_a_password_that_a_setting_says(
    setting: str,
    option: str,
    given: dict[str, Any],
    spec: dict[str, Any],
    tmp_path: Path,
) -> None:
    """It is written into a file, and the option that would hide it there goes with it."""
    spec["conf"] = {setting: "https://reader:correct-horse@packages.example/thing"}
    options, submission = SubmitOptions.read(given), Submission(spec, tmp_path / "logs")

    command = make_plan(submission, Cluster.find("a_cluster", options), options).command

    assert option not in command
    assert "correct-horse" not in " ".join(command)
    (line,) = [
        line
        for line in submission.path(".properties").read_text().splitlines()
        if line.startswith(f"{setting}=")
    ]
    first, last = line.encode().decode("unicode_escape").removeprefix(f"{setting}=").split(",")
    assert Path(first).suffix in (".zip", ".json", ".jar")
    assert last == "https://reader:correct-horse@packages.example/thing"


@pytest.mark.parametrize(
    ("manager", "goes"), [("kubernetes", True), ("yarn", False), ("standalone", False)]
)
def test_spark_submit_may_use_the_workers_credentials_where_it_tells_the_driver_none(
    manager: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To upload files to an object store; elsewhere Spark would send them along."""
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token")
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    cluster = Cluster("a_cluster", "its-master", manager, "cluster", "spark-submit", None)
    submission = Submission({}, Path("/logs"), variables={"REGION": "eu"})

    environment = cluster.environment(submission)

    assert ("AWS_WEB_IDENTITY_TOKEN_FILE" in environment) is goes
    assert environment["REGION"] == "eu"
    assert not any(name.startswith("PYTHON") for name in environment)
