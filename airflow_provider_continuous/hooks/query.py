"""ContinuousQueryHook: start a query, find it again, ask it to end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from airflow.sdk import BaseHook

from airflow_provider_continuous import configuration
from airflow_provider_continuous.connections.document import storage_options, with_connections
from airflow_provider_continuous.connections.location import (
    CONN_TYPE,
    DEFAULT,
    CheckpointLocation,
    of_connection,
    query_location,
)
from airflow_provider_continuous.deploy.backends import backend_of, spark_operator
from airflow_provider_continuous.deploy.cluster import Cluster, unknown_java
from airflow_provider_continuous.deploy.deployment import Deployment
from airflow_provider_continuous.deploy.described import describe_submission
from airflow_provider_continuous.deploy.interpreter import check_interpreter
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.leftovers import code_folder, tag_of
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.settings import (
    OPERATOR_MODE,
    ConnectionSettings,
    settings_of,
)
from airflow_provider_continuous.deploy.standbys import check_mode, is_followed
from airflow_provider_continuous.deploy.submission import (
    Submission,
    log_dir_of,
)
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.reconcile import OnChanged, Verdict, reconcile
from engine.base.extras import require_engine
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rescaling import rescale
from engine.checkpoint.standing_by import goes_on
from engine.errors import ConfigError
from engine.logs.json_lines import TEXT
from engine.query.spec import load_spec, parse_document, read_document

__all__ = ["ConnectionSettings", "ContinuousQueryHook"]

_LOCAL_QUERY = "A query in the deploy mode local"


class ContinuousQueryHook(BaseHook):
    """Runs continuous queries, each in a process of its own that outlives the task.

    :param continuous_conn_id: a connection of type ``continuous``. ``continuous_default`` need
        not exist.
    :param storage_conn_id: the Airflow connection that opens the checkpoint's storage, for this
        hook and for the query; see
        :data:`airflow_provider_continuous.connections.kinds.STORAGES`. With another scheme, or
        without a connection, the query uses the credentials of its environment.
    :param environment: environment variables of the query, over those of the connection.
    :param secrets: environment variables whose values are in connections, such as
        ``{"KAFKA_PASSWORD": "kafka_default.password"}``; over those of the connection.
    :param spark_submit: options of a submission, over those of the connection; see
        :class:`airflow_provider_continuous.deploy.options.SubmitOptions`.
    """

    conn_name_attr = "continuous_conn_id"
    default_conn_name = DEFAULT
    conn_type = CONN_TYPE
    hook_name = "Continuous query"

    def __init__(
        self,
        continuous_conn_id: str = default_conn_name,
        storage_conn_id: str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        spark_submit: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.continuous_conn_id = continuous_conn_id
        self.storage_conn_id = storage_conn_id
        self._environment = environment
        self._secrets = secrets
        self._spark_submit = spark_submit

    @cached_property
    def settings(self) -> ConnectionSettings:
        """What the connection says.

        :raises ConfigError: a connection that was named does not exist, or is not usable.
        """
        own = (self._environment, self._secrets, self._spark_submit)
        return settings_of(self.continuous_conn_id).with_more(*own)

    def get_conn(self) -> ConnectionSettings:
        """Return what the connection says."""
        return self.settings

    def test_connection(self) -> tuple[bool, str]:
        """Tell whether the connection can be used (Airflow's button in the form)."""
        try:
            variables = self.settings.variables()
            if self.settings.deploy_mode == OPERATOR_MODE:
                operator = spark_operator(self.settings)
                operator.check_document({"conf": self.settings.conf})
                operator.ask()
                return True, f"Queries are SparkApplications of {operator.place}."
            cluster = self._cluster()
            if self.settings.python is not None:
                environment = query_environment(other_python=True)
                check_interpreter(self.settings.python, {**environment, **variables})
            elif cluster is None:
                require_engine(_LOCAL_QUERY)
            binary = None if cluster is None else cluster.find_binary(self.settings.python)
            if cluster is not None:
                unknown_java()
        except ConfigError as error:
            return False, str(error)
        if cluster is None:
            return True, "Queries run in deploy mode local, in processes of the worker."
        return True, (
            f"{binary} submits queries to {cluster.master}, in {cluster.deploy_mode} mode. "
            "Whether the master answers was not tried."
        )

    def specification(
        self,
        spec: Mapping[str, Any] | str | Path,
        *,
        text: str | None = None,
        source_connection: str | None = None,
        sink_connection: str | None = None,
        **overrides: Any,
    ) -> dict[str, Any]:
        """Return a complete, valid specification. It names connections, and holds nothing of them.

        :param spec: the specification or the path of its YAML or JSON file.
        :param text: what the file says, its templates rendered; None: read it.
        :param source_connection: instead of ``source.connection``; ``sink_connection`` likewise.
        :param overrides: keys to set in it; those that are None are left alone.
        :raises ConfigError: lists everything that is wrong with it, or names the connection that
            cannot be used.
        """
        document = dict(spec) if isinstance(spec, Mapping) else _read(Path(spec), text)
        document |= {key: value for key, value in overrides.items() if value is not None}
        _connect(document, "source", source_connection)
        _connect(document, "sink", sink_connection)
        if self.settings.conf:
            document["conf"] = {**self.settings.conf, **(document.get("conf") or {})}
        location, name = document.get("checkpoint_location"), document.get("name")
        found = query_location(location, name, self.continuous_conn_id)
        if found is not None:
            document["checkpoint_location"] = found
        cluster = self._cluster()
        variables = self.settings.variables()
        mode = self.settings.deploy_mode if cluster is None else cluster.deploy_mode
        here = mode in ("local", "client")
        environ = {**query_environment(), **variables} if here else _AnyVariable(variables)
        load_spec(self._for_the_query(document), environ)
        if mode == OPERATOR_MODE:
            spark_operator(self.settings).check_document(document)
        return document

    def code_folder(self, location: object, name: str | None) -> Path:
        """Return where the code of a query is written that is a function of its task.

        :param location: of its checkpoint; without one, ``name`` is a folder in the root.
        """
        told = query_location(location, name, self.continuous_conn_id)
        url = self._checkpoint(told or "").checkpoint.url
        return code_folder(self._log_dir(url), url)

    def submit(self, document: Mapping[str, Any], by: str = "") -> SubmittedQuery:
        """Start a query as the connection's deploy mode says, unless a submission of before may
        still come to run: then return that one. Returns at once.

        :param document: what :meth:`specification` returned.
        :param by: who submits, for whoever finds the submission.
        :raises ConfigError: something is missing; nothing was started.
        :raises CheckpointError: the checkpoint cannot be read, or not be written.
        """
        deployment = self._deployment(document["checkpoint_location"])
        described = describe_submission(document, self.settings)
        return deployment.submit(lambda: self._submission(document), by, described)

    def check_standby(self) -> None:
        """Refuse a connection whose deploy mode can have no standby.

        :raises ConfigError: it cannot.
        """
        check_mode(backend_of(self.settings)[0].name)

    def stand_by(self, document: Mapping[str, Any], by: str) -> SubmittedQuery | None:
        """Start a second driver of the query that runs, which waits until that is lost; unless one
        waits, or is on its way: then return None, or that one. Returns at once.

        :param document: what :meth:`specification` returned, of the query that runs.
        :raises ConfigError: something is missing, or the deploy mode can have none.
        :raises QueryStartError: the note of the last one cannot be read.
        :raises CheckpointError: the checkpoint cannot be read, or not be written.
        """
        location = str(document["checkpoint_location"])
        if goes_on(self._checkpoint(location).checkpoint.storage):
            return None
        described = describe_submission(document, self.settings)
        return self._deployment(location, standby=True).submit(
            lambda: self._submission(document, stands_by=True), by, described
        )

    def is_followed(self, checkpoint_location: str) -> bool:
        """Tell whether a standby may take over from a run that is lost, and was not asked to end.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        return is_followed(self._checkpoint(checkpoint_location).checkpoint.storage)

    def end_standby(self, checkpoint_location: str) -> bool:
        """End the standby that was submitted last, if it is on this machine; one that has just
        taken over drains. Tell whether none is left that could be told of from here.

        :raises ContinuousError: it cannot be told.
        """
        found = self._deployment(checkpoint_location, standby=True).find()
        return found is None or found.end()

    def reconcile(
        self,
        document: Mapping[str, Any],
        running: CheckpointStatus | SubmittedQuery,
        on_changed: OnChanged,
    ) -> Verdict:
        """Compare a document with the query that runs, has run or is on its way, and decide.

        :param document: what :meth:`specification` returned.
        :raises CheckpointError: the checkpoint cannot be read.
        """
        checkpoint = self._checkpoint(document["checkpoint_location"]).checkpoint
        if isinstance(running, CheckpointStatus):
            deployment = self._deployment(document["checkpoint_location"])
            handle = deployment.of_run(running)
        else:
            handle = running.handle
        noted = None if handle is None else handle.document
        fingerprint = read_fingerprint(checkpoint.storage)
        wanted = describe_submission(document, self.settings)
        return reconcile(wanted, noted, fingerprint, on_changed)

    def on_its_way(self, checkpoint_location: str) -> SubmittedQuery | None:
        """Return the last submission if it may still come to run, None if it has run, or ended.

        Whatever the lease tells goes before this.
        """
        return self._deployment(checkpoint_location).find()

    def submitter_of(self, checkpoint_location: str, status: CheckpointStatus) -> str | None:
        """Return who has submitted the run that holds, or held, a checkpoint; None: nobody has
        noted that.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        handle = self._deployment(checkpoint_location).of_run(status)
        return None if handle is None else handle.by

    def log_of_run(self, checkpoint_location: str, run_id: str) -> Path | None:
        """Return the log of a run that somebody has submitted, if it is on this machine."""
        return self._deployment(checkpoint_location).log_of_run(run_id)

    def submission(self, checkpoint_location: str, number: int) -> SubmittedQuery | None:
        """Return a submission, whatever has become of it; None if it is not noted any more."""
        return self._deployment(checkpoint_location).submission(number)

    def started_within(
        self, submitted: SubmittedQuery, timeout_s: float, linger_s: float
    ) -> CheckpointStatus | None:
        """As :meth:`wait_until_started`, but return None after ``linger_s`` if nobody has to stay
        here until the query starts."""
        deployment = self._deployment(submitted.checkpoint_location)
        return deployment.wait_until_started(submitted, timeout_s, linger_s)

    def wait_until_started(
        self, submitted: SubmittedQuery, timeout_s: float = 120.0
    ) -> CheckpointStatus:
        """Wait until the query holds the checkpoint's lease; return the state it is in.

        What its process writes meanwhile goes to the task's log too. A process that hangs is ended,
        and an application that waits on a cluster is killed; where that cannot be done, the next
        submission waits for it.

        :raises QueryStartError: it ended or hung before; the message has the end of its log.
        :raises ConfigError: it ended because the specification or the machine is wrong.
        """
        status = self.started_within(submitted, timeout_s, math.inf)
        assert status is not None, "it does not leave"
        return status

    def status(self, checkpoint_location: str) -> CheckpointStatus:
        """Return who runs the query, in which state, and how far it has come."""
        return self._checkpoint(checkpoint_location).status()

    def find(self, checkpoint_location: str) -> CheckpointStatus | None:
        """Return the status of the run that holds the checkpoint's lease, None if none does."""
        status = self.status(checkpoint_location)
        return status if status.state.is_active else None

    def may_go_on(self, checkpoint_location: str, status: CheckpointStatus) -> bool:
        """As :meth:`CheckpointHook.may_go_on`."""
        return self._checkpoint(checkpoint_location).may_go_on(status)

    def is_ending(self, checkpoint_location: str, running: CheckpointStatus) -> bool:
        """Tell whether a run drains, or was asked to end and has not begun to."""
        requests = self._checkpoint(checkpoint_location).checkpoint.requests
        asked = requests.pending_end(str(running.run_id)) is not None
        return asked or running.state is QueryState.DRAINING

    def drain(self, checkpoint_location: str, by: str, run_id: str | None = None) -> None:
        """Ask the query to finish its open epochs and end.

        :param by: who asks, for the query's log.
        :param run_id: the run that is meant; None is whichever runs now.
        :raises ConfigError: there is no checkpoint.
        """
        self._ask("drain", checkpoint_location, by, run_id)

    def stop(self, checkpoint_location: str, by: str, run_id: str | None = None) -> None:
        """Ask the query to end now; open epochs are aborted. Parameters as for :meth:`drain`."""
        self._ask("stop", checkpoint_location, by, run_id)

    def rescale(self, checkpoint_location: str, reducers: int | None, by: str) -> CheckpointStatus:
        """Ask for another number of tasks of each stage that keeps state, now and from now on.

        :param reducers: at least 1; None: what the query's option ``reducers`` says.
        :returns: the status of before.
        :raises ConfigError: there is no checkpoint, or there cannot be so many tasks.
        """
        before = rescale(self._used(checkpoint_location), reducers, by)
        self.log.info("Asked the query of %s for %s tasks", checkpoint_location, reducers)
        return before

    def _submission(self, document: Mapping[str, Any], *, stands_by: bool = False) -> Submission:
        """What is to be started, with its secrets, looked up now."""
        location = str(document["checkpoint_location"])
        status = self.status(location)
        document = self._for_the_query(document)
        if (logs := configuration.log_format()) != TEXT:  # an older engine would not know the key
            document = {"log_format": logs, **document}
        if self.settings.deploy_mode == "local" and (conf := self._submit_options().conf):
            document = {**document, "conf": {**(document.get("conf") or {}), **conf}}
        submission = Submission(
            document,
            self._log_dir(document["checkpoint_location"]),
            previous_run_id=status.run_id,
            variables=self.settings.variables(),
            # Where an operator submits, nothing of the query runs on this machine.
            python=None if self.settings.deploy_mode == OPERATOR_MODE else self.settings.python,
            stands_by=stands_by,
            tag=tag_of(self._checkpoint(location).checkpoint.url),
        )
        if submission.python is not None:
            check_interpreter(submission.python, submission.environment())
        elif self.settings.deploy_mode == "local":
            require_engine(_LOCAL_QUERY)
        return submission

    def _log_dir(self, checkpoint_url: str) -> Path:
        return log_dir_of(self.settings, checkpoint_url)

    def _deployment(self, checkpoint_location: str, *, standby: bool = False) -> Deployment:
        hook = self._checkpoint(checkpoint_location)
        folder = self._log_dir(hook.location.url)
        return Deployment(
            checkpoint_location,
            hook.checkpoint,
            self.settings,
            folder,
            self.log,
            standby=standby,
        )

    def _cluster(self) -> Cluster | None:
        if self.settings.deploy_mode != "spark-submit":
            return None
        return Cluster.find(self.settings.spark_conn_id, self._submit_options())

    def _submit_options(self) -> SubmitOptions:
        return SubmitOptions.read(self.settings.spark_submit)

    def _for_the_query(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the specification as the query gets it: with its secrets, looked up now."""
        location = CheckpointLocation.parse(
            document.get("checkpoint_location"), self.storage_conn_id
        )
        found = {**with_connections(document), "checkpoint_location": location.url}
        storage = {**storage_options(location), **(document.get("checkpoint_storage") or {})}
        return {**found, "checkpoint_storage": storage} if storage else found

    def _ask(
        self,
        what: Literal["drain", "stop"],
        checkpoint_location: str,
        by: str,
        run_id: str | None,
    ) -> None:
        self._used(checkpoint_location).requests.ask(what, by=by, run_id=run_id)
        self.log.info("Asked the query of %s to %s", checkpoint_location, what)

    def _used(self, checkpoint_location: str) -> Checkpoint:
        hook = self._checkpoint(checkpoint_location)
        if not hook.exists():
            raise ConfigError(
                f"There is no checkpoint at {checkpoint_location}.",
                hint="Check checkpoint_location; a query creates it when it first runs.",
            )
        return hook.checkpoint

    def _checkpoint(self, checkpoint_location: str) -> CheckpointHook:
        location = of_connection(str(checkpoint_location), self.continuous_conn_id)
        return CheckpointHook(location, self.storage_conn_id)


def _connect(document: dict[str, Any], role: str, connection: str | None) -> None:
    """Make a connection that of the document's source or sink."""
    if connection is None:
        return
    connector = document.get(role)
    if not isinstance(connector, Mapping):
        raise ConfigError(
            f"{role}_connection is {connection!r}, and the specification has no {role}.",
            hint="A query that is a function gets its connections by the argument connections.",
        )
    document[role] = {**connector, "connection": connection}


class _AnyVariable(dict[str, str]):
    """Variables that may be set where the driver runs; those that we know have values."""

    def __contains__(self, name: object) -> bool:
        return True


def _read(path: Path, text: str | None) -> dict[str, Any]:
    document = read_document(path) if text is None else parse_document(text, path)
    folders = document.get("python_path")
    if isinstance(folders, list):
        # Relative to the document, which the query will read from elsewhere.
        document["python_path"] = [str(path.parent.absolute() / str(name)) for name in folders]
    return document
