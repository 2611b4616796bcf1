"""ContinuousQueryNotifier: tell people how a query is, and ask it to end if they want that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import httpx
from airflow.sdk import BaseHook, BaseNotifier

from airflow_provider_continuous.deploy.standbys import is_followed
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.links.query import query_page
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.tasks.arguments import check_found, flag, given
from airflow_provider_continuous.tasks.query_note import location_of
from airflow_provider_continuous.tasks.users import Users
from airflow_provider_continuous.view.overview import QueryOverview, look_at
from engine.base.text_tables import count
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.requests import RequestKind
from engine.errors import ConfigError, ContinuousError
from engine.redaction.logs import redact

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.connection import Connection

_TIMEOUT_S = 10.0


class WebhookError(ContinuousError):
    """A webhook did not take what it was sent."""

    retryable = True


class ContinuousQueryNotifier(BaseNotifier):
    """Tells how a query is: in the log, to a webhook, and through other notifiers.

    For ``on_failure_callback``, ``on_success_callback`` and deadlines. The text has the query's
    name, state, epoch, lag and error, and where its page is; never a secret.

    :param checkpoint_location: of the query (templated); None is that of the task whose callback
        this is.
    :param storage_conn_id: the Airflow connection that opens the storage (templated); None: with
        the task's query, that of the task.
    :param message: what to say before it (templated).
    :param webhook_conn_id: a connection whose URL gets ``{"text": ..., "query": {...}}`` by POST
        (templated), as chat programs take it. The URL is its host, with schema and port if the
        host has none, and its password behind it; with a login, both are used to log in instead.
    :param notifiers: other notifiers, which send the text: their templates can use
        ``{{ query_text }}`` and ``{{ query_status.state }}``.
    :param ask: ask the query to ``drain`` or ``stop``, by the rule of the operators of these: one
        that other DAG runs use is left to them, and so is one of which that cannot be told, as of
        Airflow's DAG processor, which calls back for tasks whose worker has died. The text says it.
    :param force: with ``ask``: whoever uses it.
    """

    template_fields: Sequence[str] = (
        "checkpoint_location",
        "storage_conn_id",
        "message",
        "webhook_conn_id",
    )

    def __init__(
        self,
        *,
        checkpoint_location: str | None = None,
        storage_conn_id: str | None = None,
        message: str = "",
        webhook_conn_id: str | None = None,
        notifiers: Sequence[BaseNotifier] = (),
        ask: Literal["drain", "stop"] | None = None,
        force: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if ask not in (None, "drain", "stop"):
            raise ValueError(f"ask is {ask!r}; it is drain, stop or None.")
        if force and ask is None:
            raise ValueError("force is for a notifier that asks: say ask='drain' or 'stop'.")
        self.checkpoint_location = checkpoint_location
        self.storage_conn_id = storage_conn_id
        self.message = message
        self.webhook_conn_id = webhook_conn_id
        self.notifiers = notifiers
        self.ask = ask
        self.force = flag("force", force)
        self._said = given(
            checkpoint_location=checkpoint_location,
            storage_conn_id=storage_conn_id,
            webhook_conn_id=webhook_conn_id,
        )

    def notify(self, context: Context) -> None:
        """Look at the query once, and tell everybody.

        :raises ConfigError: there is no query to tell about, or the connection cannot be used.
        :raises StorageHangsError: the checkpoint does not answer: nobody has been told, and the
            query may still be asked.
        :raises WebhookError: the webhook did not take it; everybody else has been told.
        """
        hook = self._checkpoint(context)
        place = place_of(hook.location.url)
        self._tell(context, POOL.within(place, partial(self._seen, hook, context)))

    async def async_notify(self, context: Context) -> None:
        """As :meth:`notify`, in the triggerer."""
        hook = await asyncio.to_thread(self._checkpoint, context)  # it may have to ask Airflow
        look = partial(self._seen, hook, context)
        overview = await POOL.soon(place_of(hook.location.url), look)
        await asyncio.to_thread(self._tell, context, overview)

    def _checkpoint(self, context: Context) -> CheckpointHook:
        check_found(self, self._said - {"webhook_conn_id"})
        if self.checkpoint_location is not None:
            return CheckpointHook(self.checkpoint_location, self.storage_conn_id)
        task = context["task"]
        location = location_of(task, context.get("ti"))
        if location is None:
            raise ConfigError(
                "The notifier does not know its query.",
                hint="Give checkpoint_location: the task of this callback has none.",
            )
        return CheckpointHook(
            location, self.storage_conn_id or getattr(task, "storage_conn_id", None)
        )

    def _seen(self, hook: CheckpointHook, context: Context) -> tuple[str, QueryOverview]:
        """Ask the query to end, if that is wanted, and look at it; tell what came of the asking."""
        asked = "" if self.ask is None else self._ask(self.ask, hook, context)
        return asked, look_at(hook.checkpoint, hook.location.text)

    def _ask(self, ask: RequestKind, hook: CheckpointHook, context: Context) -> str:
        status, storage = hook.status(), hook.checkpoint.storage
        # A standby takes over from a run that is lost, unless that was asked to end.
        is_awaited = status.state is QueryState.LOST and is_followed(storage)
        if not hook.may_go_on(status) and not is_awaited:
            return ""
        usage = Users(storage, *_dag_run(context))
        if self.force:
            usage.leave()
        else:
            try:
                _, others = usage.leave_to_others()
            except ContinuousError:
                raise
            except Exception as error:  # of Airflow, whichever of its processes this is
                why = f"who else uses it cannot be told from here ({redact(str(error))})"
                return f"It was not asked to {ask}: {why}."
            if others:
                return f"It was not asked to {ask}: it is used by {'; '.join(others)}."
        by = f"Airflow callback of {_caller(context)}"
        hook.checkpoint.requests.ask(ask, by=by, run_id=status.run_id)
        return f"It was asked to {ask}."

    def _tell(self, context: Context, seen: tuple[str, QueryOverview]) -> None:
        asked, overview = seen
        location = overview.location
        lines = self.message, describe(overview), asked, query_page(location)
        text = "\n".join(filter(None, lines))
        self.log.info("%s", text)
        status = overview.to_dict()
        for notifier in self.notifiers:
            notifier({**context, "query_text": text, "query_status": status})
        check_found(self, self._said)
        if self.webhook_conn_id is not None:
            connection = BaseHook.get_connection(self.webhook_conn_id)
            post(connection, {"text": text, "query": status})


def describe(overview: QueryOverview) -> str:
    """Return in one or two lines how a query is."""
    status = overview.status
    parts = [f"Query {overview.name} is {status.state}, last committed epoch {status.epoch}"]
    if overview.lag_s is not None:
        parts.append(f"committed {overview.lag_s:,.0f} s ago")
    if status.restarts:
        parts.append(f"restarted {count(status.restarts, 'time')}")
    parts.append(f"checkpoint {overview.location}")
    error = f"\n{overview.error}" if overview.error else ""
    return f"{', '.join(parts)}.{error}"


def post(connection: Connection, body: Mapping[str, Any]) -> None:
    """Send JSON to the URL of a connection.

    :raises ConfigError: the connection has no host.
    :raises WebhookError: it was not taken; the message does not have the URL, which may be
        a secret.
    """
    if not connection.host:
        raise ConfigError(
            f"The connection {connection.conn_id!r} has no host.",
            hint="Its host is the URL of the webhook.",
        )
    url = connection.host
    if "://" not in url:
        port = f":{connection.port}" if connection.port else ""
        url = f"{connection.schema or 'https'}://{url}{port}"
    login = None
    if connection.login:
        login = (connection.login, connection.password or "")
    elif connection.password:
        url = f"{url.rstrip('/')}/{connection.password}"
    try:
        answer = httpx.post(url, json=dict(body), auth=login, timeout=_TIMEOUT_S)
        problem = None if answer.is_success else f"answered {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem = f"did not answer: {type(error).__name__}"
    if problem is not None:
        raise WebhookError(
            f"The webhook of the connection {connection.conn_id!r} {problem}.",
            hint="Try its URL by hand; what was to be told is in this log.",
        ) from None


def _dag_run(context: Context) -> tuple[str, str]:
    """Return DAG and run of this callback; empty text if it has none, as others have then."""
    told: Any = context.get("ti") or context.get("dag_run")
    if isinstance(told, Mapping):  # of a deadline
        return str(told["dag_id"]), str(told["dag_run_id"])
    return ("", "") if told is None else (str(told.dag_id), str(told.run_id))


def _caller(context: Context) -> str:
    instance: Any = context.get("ti")
    return "a DAG" if instance is None else f"task {instance.dag_id}.{instance.task_id}"
