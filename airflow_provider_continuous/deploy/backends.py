"""Which backend a connection leads to, and which one knows a submission of before."""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.contract import Backend, DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.local import LocalProcess
from airflow_provider_continuous.deploy.managers.contract import Manager
from airflow_provider_continuous.deploy.managers.kubernetes import Kubernetes
from airflow_provider_continuous.deploy.managers.standalone import StandaloneMaster
from airflow_provider_continuous.deploy.managers.yarn import Yarn
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.settings import OPERATOR_MODE, ConnectionSettings
from airflow_provider_continuous.deploy.spark_operator.backend import SparkOperator
from airflow_provider_continuous.deploy.spark_operator.clients import Clients
from airflow_provider_continuous.deploy.spark_operator.template import Template
from airflow_provider_continuous.deploy.spark_submit import ClientMode, ClusterMode
from airflow_provider_continuous.deploy.submission import Submission
from engine.errors import ConfigError
from engine.redaction.logs import redact

logger = logging.getLogger(__name__)


def backend_of(settings: ConnectionSettings) -> tuple[Backend, str]:
    """Return the backend of new submissions, and the place of its cluster, empty without one.

    :raises ConfigError: what the connection names is not there.
    """
    if settings.deploy_mode == "local":
        return LocalProcess(), ""
    options = SubmitOptions.read(settings.spark_submit)
    if settings.deploy_mode == OPERATOR_MODE:
        backend = spark_operator(settings)
        return backend, backend.place
    cluster = Cluster.find(settings.spark_conn_id, options)
    if cluster.deploy_mode == "client":
        return ClientMode(cluster, options), ""
    manager = _manager(cluster, options, settings)
    return ClusterMode(cluster, options, manager), cluster.place


def spark_operator(settings: ConnectionSettings) -> SparkOperator:
    """Return the backend of a connection whose deploy mode is ``spark-operator``.

    :raises ConfigError: what it says cannot be used.
    """
    clients = Clients.open(settings.kubernetes_conn_id)
    template = Template.read(settings.spark_application, clients.namespace)
    return SparkOperator(template, SubmitOptions.read(settings.spark_submit), clients)


def backend_that_knows(handle: Handle, settings: ConnectionSettings) -> Backend:
    """Return the backend of a submission; one that can tell nothing if the connection leads to
    another cluster by now.

    :raises ConfigError: what the connection names is not there.
    """
    if handle.backend in ("local", "client"):
        # A process is a process, whatever the connection says by now.
        return LocalProcess(handle.backend)
    backend, place = backend_of(settings)
    # An earlier release has noted the master alone.
    if backend.name == handle.backend and handle.cluster in (place, place.partition(", ")[0]):
        return backend
    return _OfAnother(handle)


class _OfAnother(Backend):
    """A submission to a cluster that the connection does not lead to."""

    def __init__(self, handle: Handle) -> None:
        self.name = handle.backend

    def submit(self, submission: Submission, handle: Handle) -> Handle:
        raise ConfigError(f"The connection does not lead to {handle.cluster}.")

    def find(self, handle: Handle) -> Handle:
        return handle

    def status(self, handle: Handle) -> DriverStatus:
        where = f"submitted to {handle.cluster}, where the connection does not lead"
        return DriverStatus(DriverState.UNKNOWN, where)

    def kill(self, handle: Handle, *, hard: bool = False) -> bool:
        return False


def _manager(cluster: Cluster, options: SubmitOptions, settings: ConnectionSettings) -> Manager:
    if cluster.manager == "yarn":
        return Yarn(cluster.yarn_web)
    if cluster.manager == "kubernetes":
        return Kubernetes(cluster.namespace, _kubernetes_client(), cluster.master)
    python = settings.python
    return StandaloneMaster(
        cluster.master,
        options.master_web,
        lambda: cluster.find_binary(python),
        lambda: cluster.environment_with(
            query_environment(other_python=python is not None), {}, python
        ),
    )


def _kubernetes_client() -> Any:
    """The client that Airflow's provider for Kubernetes configures; None where it cannot."""
    try:
        from airflow.providers.cncf.kubernetes.kube_client import get_kube_client

        return get_kube_client()
    except Exception as error:  # of a package that need not be installed, or of its configuration
        logger.info("Nothing can be asked of Kubernetes: %s", redact(str(error)))
        return None
