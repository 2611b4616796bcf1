"""``spark-submit``: the query is an application of a cluster that the Spark provider knows.

How the specification, which may hold secrets, reaches the driver:

- client mode: a file of this machine that only its owner can read;
- cluster mode on YARN and Kubernetes: the same file, by ``--files``;
- cluster mode on a standalone cluster, which ships no files to a driver: the environment, which
  Spark's own client sends along.

Spark refuses Python programs in the last case. What is submitted there is Spark's own
``SparkSubmit`` class, which then runs the program on the worker, in client mode.

Settings whose names or values look like secrets, and a driver's environment, go into a properties
file that only its owner can read, never on a command line.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

import engine
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.shipping import zip_modules, zip_package
from airflow_provider_continuous.launch import launch_detached
from airflow_provider_continuous.submission import SPEC_SUFFIX, Submission, SubmittedQuery
from engine.errors import ConfigError
from engine.redaction import redact
from engine.spark.java import find_java, use_java

SPECIFICATION = "CONTINUOUS_SPECIFICATION"
"""The variable that holds the specification where a driver can be given no file."""
_ENGINE = Path(engine.__file__).parent
APPLICATION = _ENGINE / "spark" / "application.py"
_NESTED = "org.apache.spark.deploy.SparkSubmit"
_DO_NOT_WAIT = {
    "standalone": "spark.standalone.submit.waitAppCompletion",
    "yarn": "spark.yarn.submit.waitAppCompletion",
    "kubernetes": "spark.kubernetes.submission.waitAppCompletion",
}
_DRIVER_VARIABLE = {"yarn": "spark.yarn.appMasterEnv", "kubernetes": "spark.kubernetes.driverEnv"}
_GIVES_WAY = ("spark.master", "spark.submit.deployMode")
_FOR_SPARK = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_",
    "TZ",
    "JAVA_",
    "SPARK_",
    "PYSPARK_",
    "HADOOP_",
    "YARN_",
    "KRB5",
    "KUBE",
    "CONTINUOUS_",
)


@dataclass(frozen=True)
class Cluster:
    """What a connection of the Spark provider leads to.

    :param manager: ``standalone``, ``yarn``, ``kubernetes``, or ``local`` for Spark's own threads.
    """

    conn_id: str
    master: str
    manager: str
    deploy_mode: str
    binary: str
    keytab: str | None

    @classmethod
    def find(cls, conn_id: str, options: SubmitOptions) -> Cluster:
        """Look the connection up.

        :raises ConfigError: it does not exist or cannot be used, or the Spark provider is missing.
        """
        try:
            extra = BaseHook.get_connection(conn_id).extra_dejson
        except AirflowNotFoundException:
            raise ConfigError(
                f"There is no connection {conn_id!r}, which spark-conn-id names.",
                hint="Create it, of type 'spark': it says the cluster's master.",
            ) from None
        # Its own file of the key table could be read by everybody.
        keytab = extra.get("keytab")
        resolved = _hook(conn_id, deploy_mode=options.deploy_mode, keytab="" if keytab else None)
        found: Mapping[str, Any] = resolved._connection
        master, mode = str(found["master"]), found["deploy_mode"] or "client"
        manager = _manager(master)
        if mode not in ("client", "cluster") or (mode == "cluster" and manager == "local"):
            raise ConfigError(
                f"The connection {conn_id!r} says {master} in deploy mode {mode!r}.",
                hint="The mode is client, or cluster on a cluster.",
            )
        return cls(conn_id, master, manager, mode, str(found["spark_binary"]), keytab)

    @property
    def ships_files(self) -> bool:
        """Whether files of this machine reach the driver."""
        return self.deploy_mode == "client" or self.manager != "standalone"

    def find_binary(self) -> str:
        """Return the path of spark-submit: on the PATH, or beside this Python.

        :raises ConfigError: there is none.
        """
        beside = str(Path(sys.executable).parent)
        path = shutil.which(self.binary) or shutil.which(self.binary, path=beside)
        if path is None:
            raise ConfigError(
                f"The program {self.binary} was found neither on the PATH nor in {beside}.",
                hint="Install Spark on the worker, for example with pip install pyspark.",
            )
        return path


@dataclass(frozen=True)
class Plan:
    """A submission, ready to be executed.

    :param command: the whole command line.
    :param environment: of the command.
    :param private_files: those that may hold secrets, besides the specification.
    """

    command: list[str]
    environment: Mapping[str, str]
    private_files: tuple[Path, ...] = ()


def start(submission: Submission, conn_id: str, options: SubmitOptions) -> SubmittedQuery:
    """Execute spark-submit, detached from the task.

    :raises ConfigError: something is missing: the connection, the program, a provider.
    """
    cluster = Cluster.find(conn_id, options)
    plan = make_plan(submission, cluster, options)
    log_path = submission.path(".log")
    return SubmittedQuery(
        submission.document["checkpoint_location"],
        launch_detached(plan.command, log_path, plan.environment),
        log_path,
        submission.path(SPEC_SUFFIX),
        submission.previous_run_id,
        "child" if cluster.deploy_mode == "client" else "elsewhere",
        plan.private_files,
    )


def make_plan(submission: Submission, cluster: Cluster, options: SubmitOptions) -> Plan:
    """Write the submission's files, and say what to execute."""
    document = dict(submission.document)
    conf = {**(document.pop("conf", None) or {}), **options.conf}
    conf = {key: _text(value) for key, value in conf.items() if key not in _GIVES_WAY}
    code = _code(document, submission, cluster, options)
    options = replace(options, py_files=_joined(*code, options.py_files))
    if cluster.ships_files:
        return _plan_with_files(document, conf, submission, cluster, options)
    return _plan_nested(document, conf, submission, cluster, options)


def _plan_with_files(
    document: Mapping[str, Any],
    conf: dict[str, str],
    submission: Submission,
    cluster: Cluster,
    options: SubmitOptions,
) -> Plan:
    spec_path = submission.write_specification(document)
    private = {key: value for key, value in conf.items() if _is_secret(key, value)}
    argument, environment = str(spec_path), _environment(submission, cluster)
    if cluster.deploy_mode == "cluster":
        conf[_DO_NOT_WAIT[cluster.manager]] = "false"
        prefix = _DRIVER_VARIABLE[cluster.manager]
        private |= {f"{prefix}.{name}": value for name, value in submission.variables.items()}
        options = replace(options, files=_joined(str(spec_path), options.files))
        argument = spec_path.name
    properties = _write_properties(private, submission, options) if private else None
    command = _command(
        cluster,
        options.application or str(APPLICATION),
        **{
            **options.of_the_hook(),
            "keytab": options.keytab or _write_keytab(cluster, submission),
            "properties_file": str(properties) if properties else options.properties_file,
        },
        conf={key: value for key, value in conf.items() if key not in private},
        deploy_mode=cluster.deploy_mode,
        name=document.get("name") or "continuous query",
        application_args=[argument],
    )
    if properties and not options.properties_file:
        command.insert(1, "--load-spark-defaults")  # which any properties file would hide
    private_files = (properties,) if properties else ()
    return Plan([cluster.find_binary(), *command[1:]], environment, private_files)


def _plan_nested(
    document: dict[str, Any],
    conf: dict[str, str],
    submission: Submission,
    cluster: Cluster,
    options: SubmitOptions,
) -> Plan:
    private = {key: value for key, value in conf.items() if _is_secret(key, value)}
    spec = json.dumps({**document, "conf": private}, ensure_ascii=False)
    name = document.get("name") or "continuous query"
    public = {key: value for key, value in conf.items() if key not in private}
    inner = _command(
        cluster,
        options.application or str(APPLICATION),
        **options.of_the_hook(),
        conf=public,
        deploy_mode="client",
        name=name,
        application_args=[f"env:{SPECIFICATION}"],
    )
    outer = _command(
        cluster,
        options.driver_jar or _any_jar(),
        java_class=_NESTED,
        conf={
            **{key: value for key, value in public.items() if key.startswith("spark.driver.")},
            _DO_NOT_WAIT["standalone"]: "false",
        },
        driver_memory=options.driver_memory,
        deploy_mode="cluster",
        name=name,
        application_args=inner[1:],
    )
    environment = {**_environment(submission, cluster), SPECIFICATION: spec}
    return Plan([cluster.find_binary(), *outer[1:]], environment)


def _command(cluster: Cluster, application: str, **arguments: Any) -> list[str]:
    command: list[str] = _hook(cluster.conn_id, **arguments)._build_spark_submit_command(
        application
    )
    return command


def _hook(conn_id: str, **arguments: Any) -> Any:
    """The Spark provider's hook, whose way from a connection to a command line is used as it is."""
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    except ImportError as error:
        raise ConfigError(
            f"The deploy mode spark-submit needs Airflow's Spark provider: {error}.",
            hint="pip install apache-airflow-providers-apache-spark",
        ) from error
    try:
        return SparkSubmitHook(conn_id=conn_id, **arguments)
    except (NameError, RuntimeError) as error:
        raise ConfigError(
            f"The Spark provider cannot use Kubernetes, which the connection {conn_id!r} names.",
            hint="pip install apache-airflow-providers-cncf-kubernetes",
        ) from error
    except ValueError as error:
        raise ConfigError(f"The connection {conn_id!r} cannot be used: {error}") from error


def _manager(master: str) -> str:
    if master.startswith("spark://"):
        return "standalone"
    if master.startswith("k8s://"):
        return "kubernetes"
    return "yarn" if master.startswith("yarn") else "local"


def _code(
    document: dict[str, Any], submission: Submission, cluster: Cluster, options: SubmitOptions
) -> list[str]:
    """The zips to send along; the document then says nothing of folders of this machine.

    A driver on a standalone cluster can be sent none.
    """
    folders = [Path(folder) for folder in document.pop("python_path", None) or ()]
    if not cluster.ships_files:
        if folders:
            raise ConfigError(
                "python_path cannot be sent to a driver on a standalone cluster.",
                hint="Give spark_submit.py_files, with paths or URLs that every worker can read, "
                "or use client mode.",
            )
        return []
    shelf = submission.log_dir / "code"
    shipped = [zip_package(_ENGINE, shelf)] if options.ship_engine else []
    return [str(path) for path in (*shipped, *(zip_modules(folder, shelf) for folder in folders))]


def _environment(submission: Submission, cluster: Cluster) -> dict[str, str]:
    """The environment of spark-submit."""
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        java = find_java()
        if java is None:
            raise ConfigError(
                "spark-submit needs Java; none was found.",
                hint="Install a Java runtime on the worker and set JAVA_HOME.",
            )
        use_java(java)
    environment = submission.environment()
    if cluster.deploy_mode == "client":
        environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    else:  # the driver has another machine's Python, and gets this environment on some clusters
        environment = {
            name: value
            for name, value in environment.items()
            if name in submission.variables or name.startswith(_FOR_SPARK)
        }
    if "SPARK_HOME" not in environment and _is_installed_by_pip(cluster.find_binary()):
        environment["SPARK_HOME"] = str(_spark_home())
    return environment


def _spark_home() -> Path:
    found = find_spec("pyspark")
    installed = "" if found is None else str(Path(str(found.origin)).parent)
    return Path(os.environ.get("SPARK_HOME") or installed)


def _is_installed_by_pip(binary: str) -> bool:
    """Whether spark-submit would look for Spark with some Python, which is not always this one."""
    return Path(binary).with_name("find_spark_home.py").exists()


def _write_properties(
    private: Mapping[str, str], submission: Submission, options: SubmitOptions
) -> Path:
    """Write a file of Java's properties: the options' own, then the private ones."""
    lines = [f"{_escaped(key)}={_escaped(value)}" for key, value in private.items()]
    if options.properties_file:
        try:
            lines.insert(0, Path(options.properties_file).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"spark_submit.properties_file cannot be read: {error}.") from error
    return submission.write(".properties", "\n".join(lines) + "\n")


def _escaped(text: str) -> str:
    """Text as Java reads it from properties: its own syntax and all blanks are escaped."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2))
    return "".join(
        chr(code)
        if code < 128 and (chr(code).isalnum() or chr(code) in "._-/")
        else f"\\u{code:04x}"
        for code in codes
    )


def _write_keytab(cluster: Cluster, submission: Submission) -> str | None:
    """Write the connection's key table. Spark reads it for as long as the query runs."""
    if not cluster.keytab:
        return None
    try:
        content = base64.b64decode(cluster.keytab, validate=True)
    except ValueError as error:
        raise ConfigError(f"The keytab of {cluster.conn_id!r} is not base64: {error}.") from error
    path = submission.log_dir / f"{hashlib.sha256(content).hexdigest()[:16]}.keytab"
    if not path.exists():
        submission.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, made = tempfile.mkstemp(dir=submission.log_dir)  # 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(made).replace(path)
    return str(path)


def _any_jar() -> str:
    """Spark asks for a jar to submit; any of its own will do."""
    jars = sorted((_spark_home() / "jars").glob("spark-tags_*.jar"))
    if not jars:
        raise ConfigError(
            "No jar of Spark was found on this machine.",
            hint="Give spark_submit.driver_jar: any jar at the same place on every worker.",
        )
    return str(jars[0])


def _is_secret(key: str, value: str) -> bool:
    told = f"{key}={value}"
    return redact(told) != told


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _joined(*parts: str | None) -> str | None:
    return ",".join(part for part in parts if part) or None
