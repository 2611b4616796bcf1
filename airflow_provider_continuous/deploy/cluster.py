"""The cluster that a connection of the Spark provider leads to, and how it is spoken to."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_continuous.compat import AirflowNotFoundException
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.submission import Submission
from engine.errors import ConfigError
from engine.spark.java import find_java, use_java

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
_INSTALL = "pip install 'airflow-provider-continuous[spark-submit]'"
_TOLD_JAVA = ("JAVA_HOME", "CONTINUOUS_JAVA")
"""Where :func:`use_java` says which one it is."""
_PRIVATE = ("_connection", "_build_spark_submit_command")


@dataclass(frozen=True)
class Cluster:
    """What a connection of the Spark provider leads to.

    :param keytab: what the connection holds, base64.
    :param namespace: of Kubernetes.
    :param yarn_web: the address of YARN's ResourceManager.
    :param manager: ``standalone``, ``yarn``, ``kubernetes``, or ``local`` for Spark's own threads.
    """

    conn_id: str
    master: str
    manager: str
    deploy_mode: str
    binary: str
    keytab: str | None = field(repr=False)
    namespace: str = "default"
    yarn_web: str | None = None

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
        return cls(
            conn_id,
            master,
            manager,
            mode,
            str(found["spark_binary"]),
            keytab,
            str(found.get("namespace") or "default"),
            extra.get("yarn_resourcemanager_webapp_address") or None,
        )

    @property
    def place(self) -> str:
        """What tells it from others, for a submission's note."""
        told = f", namespace {self.namespace}" if self.manager == "kubernetes" else ""
        return f"{self.master}{told}"

    @property
    def ships_files(self) -> bool:
        """Whether files of this machine reach the driver."""
        return self.deploy_mode == "client" or self.manager != "standalone"

    def find_binary(self, python: str | None = None) -> str:
        """Return the path of spark-submit: on the PATH, or beside the driver's Python.

        :param python: the driver's; by default this one.
        :raises ConfigError: there is none.
        """
        beside = str(Path(python or sys.executable).parent)
        path = shutil.which(self.binary) or shutil.which(self.binary, path=beside)
        if path is None:
            raise ConfigError(
                f"The program {self.binary} was found neither on the PATH nor in {beside}.",
                hint=f"Install Spark on the worker, for example with {_INSTALL}.",
            )
        return path

    def command(self, application: str, **arguments: Any) -> list[str]:
        """Return the command that the Spark provider would execute.

        :param arguments: those of its ``SparkSubmitHook``.
        """
        conf = dict(arguments.get("conf") or {})
        if self.manager == "standalone" and arguments.get("deploy_mode") == "cluster":
            conf["spark.master.rest.enabled"] = "false"  # by REST the driver gets no environment
        arguments["conf"] = conf
        # Empty and not None: else the hook writes a key table that everybody can read.
        arguments["keytab"] = arguments.get("keytab") or ""
        hook = _hook(self.conn_id, **arguments)
        command: list[str] = hook._build_spark_submit_command(application)
        return command

    def environment(self, submission: Submission) -> dict[str, str]:
        """Return the whole environment of spark-submit.

        :raises ConfigError: there is no Java.
        """
        return self.environment_with(
            submission.environment(), submission.variables, submission.python
        )

    def environment_with(
        self,
        environment: dict[str, str],
        variables: Mapping[str, str],
        python: str | None,
    ) -> dict[str, str]:
        """Return the whole environment of one of Spark's programs.

        :param environment: of any process of the query on this machine.
        :param variables: the query's own, which always go along.
        :param python: the interpreter of the driver; None: the one that runs this.
        :raises ConfigError: there is no Java.
        """
        java = unknown_java()
        if java is not None:
            use_java(java)
            told = {name: os.environ[name] for name in _TOLD_JAVA if name in os.environ}
            environment = {**environment, **told}
        if self.deploy_mode == "client":
            environment.setdefault("PYSPARK_DRIVER_PYTHON", python or sys.executable)
        else:  # the driver has another machine's Python, and gets this environment on some clusters
            environment = {
                name: value
                for name, value in environment.items()
                if name in variables or self._is_for_spark_submit(name)
            }
        of_this_python = python is None and _is_installed_by_pip(self.find_binary())
        if "SPARK_HOME" not in environment and of_this_python:
            environment["SPARK_HOME"] = str(spark_home())
        return environment

    def _is_for_spark_submit(self, name: str) -> bool:
        """Whether a variable of this machine is for spark-submit in cluster mode. On Kubernetes
        none reaches the driver, and spark-submit uploads files with what credentials there are."""
        if self.manager == "kubernetes":
            return not name.startswith("PYTHON")
        return name.startswith(_FOR_SPARK)


def unknown_java() -> Path | None:
    """Return the Java that Spark's programs have to be told of; None: they find one by themselves.

    :raises ConfigError: there is none.
    """
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return None
    java = find_java()
    if java is None:
        raise ConfigError(
            "spark-submit needs Java; none was found.",
            hint="Install a Java runtime on the worker and set JAVA_HOME, or "
            "pip install 'airflow-provider-continuous[java]'.",
        )
    return java


def _hook(conn_id: str, **arguments: Any) -> Any:
    """The Spark provider's hook, whose way from a connection to a command line is used as it is.

    Two names of it are private, so a version without them is refused.
    """
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    except ImportError as error:
        raise ConfigError(
            f"The deploy mode spark-submit needs Airflow's Spark provider: {error}.",
            hint=_INSTALL,
        ) from error
    try:
        hook = SparkSubmitHook(conn_id=conn_id, **arguments)
    except (NameError, RuntimeError) as error:
        raise ConfigError(
            f"The Spark provider cannot use Kubernetes, which the connection {conn_id!r} names.",
            hint="pip install apache-airflow-providers-cncf-kubernetes",
        ) from error
    except ValueError as error:
        raise ConfigError(f"The connection {conn_id!r} cannot be used: {error}") from error
    if missing := [name for name in _PRIVATE if not hasattr(hook, name)]:
        raise ConfigError(
            f"Airflow's Spark provider has changed: its hook has no {', '.join(missing)}.",
            hint=_INSTALL,
        )
    return hook


def _manager(master: str) -> str:
    if master.startswith("spark://"):
        return "standalone"
    if master.startswith("k8s://"):
        return "kubernetes"
    return "yarn" if master.startswith("yarn") else "local"


def spark_home() -> Path:
    """Return where Spark is on this machine."""
    found = find_spec("pyspark")
    installed = "" if found is None else str(Path(str(found.origin)).parent)
    return Path(os.environ.get("SPARK_HOME") or installed)


def _is_installed_by_pip(binary: str) -> bool:
    """Whether spark-submit would look for Spark with some Python, which is not always this one."""
    return Path(binary).with_name("find_spark_home.py").exists()
