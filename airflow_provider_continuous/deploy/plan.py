"""What is executed to submit a query with ``spark-submit``.

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

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import engine
from airflow_provider_continuous.deploy.cluster import Cluster, spark_home
from airflow_provider_continuous.deploy.driver_variables import PREFIXES
from airflow_provider_continuous.deploy.options import SubmitOptions, joined
from airflow_provider_continuous.deploy.private_files import (
    is_secret,
    write_keytab,
    write_properties,
)
from airflow_provider_continuous.deploy.sent_along import keep
from airflow_provider_continuous.deploy.shipping import zip_modules, zip_package
from airflow_provider_continuous.deploy.shown_settings import hiding, settings_in
from airflow_provider_continuous.deploy.spark_conf import spark_conf
from airflow_provider_continuous.deploy.submission import Submission
from engine.errors import ConfigError

logger = logging.getLogger(__name__)

SPECIFICATION = "CONTINUOUS_SPECIFICATION"
"""The variable that holds the specification where a driver can be given no file."""
_VARIABLE_BYTES_MAX = 128 * 1024
"""Linux's, of name and value with ``=`` between and a zero behind them."""
_ENGINE = Path(engine.__file__).parent
APPLICATION = _ENGINE / "commands" / "application.py"
_NESTED = "org.apache.spark.deploy.SparkSubmit"
_DO_NOT_WAIT = {
    "standalone": "spark.standalone.submit.waitAppCompletion",
    "yarn": "spark.yarn.submit.waitAppCompletion",
    "kubernetes": "spark.kubernetes.submission.waitAppCompletion",
}


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


def make_plan(
    submission: Submission,
    cluster: Cluster,
    options: SubmitOptions,
    marks: Mapping[str, str] | None = None,
) -> Plan:
    """Write the submission's files, and say what to execute.

    :param marks: settings by which the cluster knows the submission. A query may have tags besides.
    :raises ConfigError: a query has another one of them, or something cannot be sent along.
    """
    for name in options.without_effect(cluster.manager):
        logger.warning("spark_submit.%s: Spark does not look at it on %s", name, cluster.manager)
    document = dict(submission.document)
    conf = spark_conf(document.pop("conf", None), options.conf, marks=marks)
    code = _code(document, submission, cluster, options)
    options = replace(options, py_files=joined(*code, options.py_files))
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
    arguments, environment = (
        [*submission.run_options, str(spec_path)],
        cluster.environment(submission),
    )
    variables = {}
    if cluster.deploy_mode == "cluster":
        conf[_DO_NOT_WAIT[cluster.manager]] = "false"
        prefix = PREFIXES[cluster.manager]
        variables = {f"{prefix}{name}": value for name, value in submission.variables.items()}
        options = replace(options, files=joined(str(spec_path), options.files))
        arguments = [spec_path.name]
    options, conf = options.with_settings(conf)
    options, addresses = options.private()
    private = {key: value for key, value in conf.items() if is_secret(key, value)}
    private |= {**variables, **addresses}
    program = cluster.find_binary(submission.python)
    if private:
        private |= hiding(private, conf, options.properties_file, program, environment)
    properties = write_properties(private, submission, options.properties_file) if private else None
    keytab = None
    if cluster.keytab:
        keytab = keep(submission, partial(write_keytab, cluster.keytab))
    command = cluster.command(
        options.application or str(APPLICATION),
        **{
            **options.of_the_hook(),
            "keytab": options.keytab or keytab,
            "properties_file": str(properties) if properties else options.properties_file,
        },
        conf={key: value for key, value in conf.items() if key not in private},
        deploy_mode=cluster.deploy_mode,
        name=document.get("name") or "continuous query",
        application_args=arguments,
    )
    if properties and not options.properties_file:
        command.insert(1, "--load-spark-defaults")  # which any properties file would hide
    private_files = (properties,) if properties else ()
    return Plan([program, *command[1:]], environment, private_files)


def _plan_nested(
    document: dict[str, Any],
    conf: dict[str, str],
    submission: Submission,
    cluster: Cluster,
    options: SubmitOptions,
) -> Plan:
    if cluster.keytab:
        raise ConfigError(
            f"The connection {cluster.conn_id!r} has a keytab, and {cluster.master} is a "
            "standalone cluster: no driver there logs in by one.",
            hint="Leave the keytab out, and log in on the workers, as the user whose processes "
            "they start.",
        )
    options, conf = options.with_settings(conf)
    options.refuse_private()
    private = {key: value for key, value in conf.items() if is_secret(key, value)}
    spec = json.dumps({**document, "conf": private})  # ASCII: Java may have no locale
    name = document.get("name") or "continuous query"
    public = {key: value for key, value in conf.items() if key not in private}
    inner = cluster.command(
        options.application or str(APPLICATION),
        **options.of_the_hook(),
        conf=public,
        deploy_mode="client",
        name=name,
        application_args=[f"env:{SPECIFICATION}"],
    )
    outer = cluster.command(
        options.driver_jar or _any_jar(),
        java_class=_NESTED,
        conf={
            **_of_driver_start({**_in_file(options), **public}),
            _DO_NOT_WAIT["standalone"]: "false",
        },
        **options.of_driver_start(),
        deploy_mode="cluster",
        name=name,
        application_args=inner[1:],
    )
    refuse_long({**submission.variables, SPECIFICATION: spec})
    environment = {**cluster.environment(submission), SPECIFICATION: spec}
    return Plan([cluster.find_binary(submission.python), *outer[1:]], environment)


def _of_driver_start(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings that count where the driver's Java machine is started, whose command line has them:
    none with a secret."""
    starts = {key: value for key, value in conf.items() if key.startswith("spark.driver.")}
    return {key: value for key, value in starts.items() if not is_secret(key, value)}


def _in_file(options: SubmitOptions) -> dict[str, str]:
    path = options.properties_file
    if path and not Path(path).is_file():
        logger.warning(
            "spark_submit.properties_file: %s is not on this machine, so what it says of the "
            "driver's memory and of its class path has no effect",
            path,
        )
    return settings_in(Path(path)) if path else {}


def refuse_long(variables: Mapping[str, str]) -> None:
    """:raises ConfigError: a variable is longer than a process can have one."""
    for name, value in variables.items():
        length = len(f"{name}={value}\0".encode())
        if length > _VARIABLE_BYTES_MAX:
            raise ConfigError(
                f"The variable {name} has {length} bytes, and a process can have "
                f"{_VARIABLE_BYTES_MAX}.",
                hint="Make it shorter: the query's own code belongs where the driver runs, as a "
                "module.",
            )


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
    zips = [partial(zip_package, _ENGINE)] if options.ship_engine else []
    zips += [partial(zip_modules, folder) for folder in folders]
    return [keep(submission, make) for make in zips]


def _any_jar() -> str:
    """Spark asks for a jar to submit; any of its own will do."""
    jars = sorted((spark_home() / "jars").glob("spark-tags_*.jar"))
    if not jars:
        raise ConfigError(
            "No jar of Spark was found on this machine.",
            hint="Give spark_submit.driver_jar: any jar at the same place on every worker.",
        )
    return str(jars[0])
