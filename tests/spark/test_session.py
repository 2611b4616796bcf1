"""The session that the command line and Airflow run queries in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

SECRET = "tell-nobody"
KEY = "spark.hadoop.fs.s3a.secret.key"
PROGRAM = f"""
import json, psutil
from engine.spark.session import build_session

conf = {{"spark.master": "local[1]", "spark.driver.memory": "500m", {KEY!r}: {SECRET!r}}}
spark = build_session(conf, "test")
children = psutil.Process().children(recursive=True)
lines = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"]) if each in children]
secret = spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
print(json.dumps({{"lines": lines, "secret": secret}}))
spark.stop()
"""


def test_a_secret_setting_is_on_no_command_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["secret"] == SECRET, "it reaches Spark all the same"
    assert any("-Xmx500m" in line for line in seen["lines"]), "the JVM was seen"
    assert SECRET not in json.dumps(seen["lines"])
