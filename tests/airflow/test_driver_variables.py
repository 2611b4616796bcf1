"""A driver's variables on a cluster, through what YARN and Kubernetes make of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.private_files import write_properties
from airflow_provider_continuous.deploy.submission import Submission

ODD = [
    "plain",
    "pa$$w$HOME",
    'a "quotation" \\ and \\" more',
    "$(touch made) `touch made`",
    '{"key": {"inner": {}}}',
    "a<CPS>b <LOG_DIR> {{PWD}} {{{x}}}",
    "$(NAME) $$(NAME) ends with $",
    "two\nlines",
]


def written(value: str, prefix: str, folder: Path, *, own: bool = True) -> str:
    """What Spark reads as the setting of the variable."""
    submission = Submission({}, folder, variables={"ODD": value} if own else {})
    path = write_properties({f"{prefix}.ODD": value}, submission, None)
    text = path.read_text().partition("=")[2].rstrip("\n")
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)


@pytest.mark.parametrize("value", ODD)
def test_what_yarn_exports(value: str, tmp_path: Path) -> None:
    """As Hadoop's ``ContainerLaunch`` does it: it expands the value, and writes it to a script."""
    told = written(value, "spark.yarn.appMasterEnv", tmp_path / "logs")
    told = told.replace("<LOG_DIR>", "/logs").replace("<CPS>", ":")
    told = told.replace("{{", "$").replace("}}", "")
    script = f'export ODD="{told}"\nprintf %s "$ODD"'

    ran = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert ran.stdout == value
    assert not (tmp_path / "made").exists(), "a part of it was executed"


@pytest.mark.parametrize("value", ODD)
def test_what_kubernetes_gives(value: str, tmp_path: Path) -> None:
    """As its ``expansion.Expand`` does it, where the name is a variable too."""
    told = written(value, "spark.kubernetes.driverEnv", tmp_path)

    given = re.sub(
        r"\$(\$|\((?P<name>[^)]*)\))", lambda found: "value" if found["name"] else "$", told
    )

    assert given == value


def test_what_is_no_variable_of_ours_stays(tmp_path: Path) -> None:
    """It may be meant for the shell: a ``PATH`` with ``$PATH`` in it, for example."""
    told = written("/opt/bin:$PATH", "spark.yarn.appMasterEnv", tmp_path, own=False)

    assert told == "/opt/bin:$PATH"
