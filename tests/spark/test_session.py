"""The session that the command line and Airflow run queries in."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from engine.spark.class_archive import OPTIONS

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

WITH_CTRL_C = """
import signal
from engine.spark.session import build_session

def mine(number, frame):
    pass

signal.signal(signal.SIGINT, mine)
spark = build_session({"spark.master": "local[1]"}, "test")
kept = signal.getsignal(signal.SIGINT) is mine
name = spark.sparkContext.appName
print(kept, spark.getActiveSession() is not None, spark.range(3).count(), name)
spark.stop()
"""

WITH_AN_ARCHIVE = """
from pathlib import Path
import psutil
from engine.spark.class_archive import make_archive
from engine.spark.java import find_java
from engine.spark.session import build_session

archive = make_archive(find_java())
spark = build_session({"spark.master": "local[1]"}, "test")
mapped = [
    Path(region.path).resolve()
    for child in psutil.Process().children()
    for region in child.memory_maps()
]
print("no archive" if archive is None else archive.resolve() in mapped)
spark.stop()
"""


def test_the_jvm_maps_the_archive_of_its_classes() -> None:
    """``make install`` has made it."""
    plain = {name: value for name, value in os.environ.items() if name != OPTIONS}
    ended = subprocess.run(
        [sys.executable, "-c", WITH_AN_ARCHIVE],
        env=plain,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    told = ended.stdout.splitlines()[-1]
    if told == "no archive":
        pytest.skip("this Java makes none")
    assert told == "True"


def test_a_secret_setting_is_on_no_command_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["secret"] == SECRET, "it reaches Spark all the same"
    assert any("-Xmx500m" in line for line in seen["lines"]), "the JVM was seen"
    assert SECRET not in json.dumps(seen["lines"])


def test_ctrl_c_stays_with_who_has_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITH_CTRL_C], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "True True 3 test"
