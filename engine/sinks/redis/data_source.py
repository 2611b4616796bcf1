"""``redis``: rows as entries of a stream, each epoch exactly once.

================  =============  ===============================================================
option            default
================  =============  ===============================================================
url                              see :mod:`engine.clients.redis`, also of username and password
stream                           the key of the stream
maxLength                        so many entries are kept, more or less (``MAXLEN ~``)
maxRowsPerEpoch   100000         so many rows of an epoch are enough; so long a commit holds Redis
                                 up: 2 to 3 µs for each
keyPrefix         continuous     what its own keys begin with, for access lists
failOnDataLoss    true           epochs that Redis has lost are an error; else the log tells them
================  =============  ===============================================================

Tasks stage the rows of an epoch in keys of their own. The commit is one script, which nobody sees
half done (:mod:`engine.sinks.redis.scripts`): it looks which epochs of the query are there, copies
the rows into the stream, and notes the epoch. If what was staged is gone, the epoch is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import Options
from engine.checkpoint.sink_context import SinkContext
from engine.clients.redis import LOGIN_OPTIONS, RedisServer
from engine.errors import (
    ConfigError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
)
from engine.expressions.schemas import to_arrow
from engine.sinks.adapter import own_messages
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter
from engine.sinks.redis import scripts
from engine.sinks.redis.task_writer import (
    RowFields,
    StagedRows,
    StagingWriter,
    check_run,
    marks_key,
    names_key,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
OWNER: Final = "sink redis"
ROWS_MAX: Final = 100_000
_AWAY: Final = {"away": SinkUnavailableError, "refused": SinkCommitRejectedError}
_SAFE: Final = "appendonly yes, appendfsync always"


class RedisSink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(OWNER, options)
        self._server = RedisServer.of(OWNER, taken)
        self._stream = taken.required("stream", example="orders")
        self._length = taken.optional_integer("maxLength", minimum=1)
        self._rows_max = taken.integer("maxRowsPerEpoch", ROWS_MAX, minimum=1)
        self._prefix = taken.text("keyPrefix") or "continuous"
        self._fails_on_loss = taken.boolean("failOnDataLoss", True)
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "redis"

    def streamWriter(self, schema: StructType, overwrite: bool) -> RedisWriter:
        """:raises ConfigError: a column has a type of which Redis has no text."""
        fields = RowFields.of(OWNER, to_arrow(schema, OWNER))
        tasks = StagingWriter(self._server, fields, self._prefix, self._rows_max)
        return RedisWriter(
            self._server, tasks, self._stream, self._prefix, self._length, self._fails_on_loss
        )


class RedisWriter(ContinuousWriter, DataSourceStreamArrowWriter):
    """The driver's side."""

    delivery = EXACTLY_ONCE
    mayDropPrepared = True
    messageTypes: ClassVar[Mapping[str, type]] = {"staged": StagedRows}
    tuningOptions = (*LOGIN_OPTIONS, "maxLength", "maxRowsPerEpoch", "failOnDataLoss")

    def __init__(
        self,
        server: RedisServer,
        tasks: StagingWriter,
        stream: str,
        prefix: str,
        length: int | None,
        fails_on_loss: bool,
    ) -> None:
        self._server, self._tasks, self._stream = server, tasks, stream
        self._prefix, self._length, self._fails_on_loss = prefix, length, fails_on_loss
        self._client: Any = None
        self._context: SinkContext | None = None

    def taskWriter(self) -> StagingWriter:
        return self._tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        raise ConfigError(
            f"{OWNER} is for continuous queries: Spark's micro-batches do not tell it whose epochs "
            "it gets.",
            hint="Start it by write_stream(df) with trigger(continuous=...).",
        )

    def validate(self) -> None:
        """:raises ConfigError: it cannot be reached or used, or the key is no stream."""
        client = self._server.connect()
        try:
            info = self._server.check(client)
            with self._server.speaking("cannot be asked", away=ConfigError, refused=ConfigError):
                kind = client.type(self._stream).decode()
            if kind not in ("stream", "none"):
                raise self._other_kind(ConfigError, kind)
            self._say_what_it_may_lose(info, client)
        finally:
            client.close()

    def bind(self, context: SinkContext) -> None:
        """Shut earlier runs out.

        :raises StaleRunError: a later one has been here.
        :raises SinkUnavailableError: Redis cannot be reached.
        """
        self.stop()
        self._context = context
        self._marks = marks_key(self._prefix, context)
        self._client = self._server.connect()
        seen = self._run(scripts.BIND, [self._marks], [context.generation])
        if seen:
            check_run(self._server, context, seen)

    def latestEpoch(self) -> int | None:
        context = self._bound()
        with self._server.speaking("cannot be asked", **_AWAY):
            timeline, epoch = self._client.hmget(self._marks, "timeline", "epoch")
        return int(epoch) if timeline == b"%d" % context.timeline else None

    def fenceTasks(self) -> None:
        """What was staged and is not committed will not be; :meth:`bind` has shut its tasks out."""
        context = self._bound()
        keys = [self._marks, names_key(self._marks)]
        check_run(self._server, context, self._run(scripts.FENCE, keys, [context.generation]))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Again is fine.

        :raises StaleRunError: this run has lost the query.
        :raises PreparedEpochLostError: what was staged is gone.
        :raises SinkCommitRejectedError: the key is no stream, or Redis has lost epochs.
        :raises SinkCommitUnknownError: there is no answer.
        """
        context, staged = self._bound(), own_messages(messages, StagedRows)
        keys = [self._marks, names_key(self._marks), self._stream, *(each.key for each in staged)]
        given = [
            context.generation,
            context.timeline,
            batchId,
            int(self._fails_on_loss),
            "" if self._length is None else self._length,
            *(each.rows for each in staged),
        ]
        answer, detail = self._run(scripts.COMMIT, keys, given, away=SinkCommitUnknownError)
        if answer == b"stale":
            check_run(self._server, context, detail)
        elif answer == b"kind":
            raise self._other_kind(SinkCommitRejectedError, detail.decode())
        elif answer == b"lost":
            raise PreparedEpochLostError(
                f"{OWNER}: {self._server.name} does not have what was staged of epoch {batchId} "
                f"any more, in {detail.decode()}.",
                hint="The epoch is run again.",
                epoch=batchId,
            )
        elif answer == b"gap":
            raise self._gap(batchId, detail)
        elif detail:
            logger.warning("failOnDataLoss is false: %s", self._gap(batchId, detail).message)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was staged of an epoch that will not be committed."""
        keys = [each.key for each in own_messages(messages, StagedRows)]
        if keys:
            with self._server.speaking("cannot be written to", **_AWAY):
                self._client.unlink(*keys)

    def stop(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()

    def _bound(self) -> SinkContext:
        assert self._context is not None, "bind() comes first"
        return self._context

    def _run(self, script: str, keys: Sequence[str], given: Sequence[Any], **errors: Any) -> Any:
        with self._server.speaking("does not answer", **{**_AWAY, **errors}):
            return self._client.register_script(script)(keys, given)

    def _other_kind(self, kind: type[ConfigError | SinkCommitRejectedError], found: str) -> Any:
        return kind(
            f"{OWNER}: the key {self._stream} of {self._server.name} is a {found}, not a stream.",
            hint="Choose another key with the option stream.",
        )

    def _gap(self, epoch: int, newest: bytes) -> SinkCommitRejectedError:
        known = "it knows of none" if newest == b"-" else f"its last is {newest.decode()}"
        return SinkCommitRejectedError(
            f"{OWNER}: {self._server.name} has lost epochs of this query: it is to commit epoch "
            f"{epoch}, and {known}.",
            hint="It was emptied, or has crashed or changed its primary without what was newest; "
            f"{_SAFE} prevents the crash. To go on without them, set failOnDataLoss to false; also "
            "for the first start with a checkpoint that was copied, or had another sink.",
            epoch=epoch,
        )

    def _say_what_it_may_lose(self, info: Mapping[str, Any], client: Any) -> None:
        policy = str(info.get("maxmemory_policy", "noeviction"))
        if policy.startswith("allkeys"):
            logger.warning(
                "%s: %s removes keys when memory is short (maxmemory-policy %s): the stream and "
                "what is known of the query may be among them",
                OWNER, self._server.name, policy,
            )  # fmt: skip
        is_logged = bool(info.get("aof_enabled"))
        if not is_logged or _sync(client) not in ("always", None):
            logger.warning(
                "%s: %s may forget its newest epochs when it crashes (it does not have %s); then "
                "the query %s",
                OWNER, self._server.name, _SAFE,
                "fails" if self._fails_on_loss else "goes on without them",
            )  # fmt: skip


def _sync(client: Any) -> str | None:
    """How the log is synchronised; None if it does not tell, as of most services."""
    try:
        return str(client.config_get("appendfsync")["appendfsync"])
    except Exception:  # not every server lets everybody see its configuration
        return None
