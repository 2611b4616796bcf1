"""What tasks are made of, on its way to executors.

It may be large: a table that a stream is joined with, what a function of the user's holds. Of what
is larger than a megabyte Spark makes a file for each job, which stays until the application ends,
and sends it anew. So it is sent as a broadcast of ours, once, and deleted when nobody needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from engine.spark.failure import gist
from engine.spark.workers import look_at_worker

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)
_INLINE_MAX_BYTES: Final = 500_000
"""Below Spark's own limit, spark.broadcast.UDFCompressionThreshold: what is small, passwords for
example, travels with the job, and is written to no disk."""
_T = TypeVar("_T")


class Sent(Generic[_T]):
    """Something that is pickled here, and loaded on executors.

    :ivar load: for the executor: returns a copy. It is loaded only by a Python that can: before,
        nothing of the engine is needed there.
    """

    def __init__(self, context: SparkContext, parts: _T) -> None:
        from pyspark.serializers import CloudPickleSerializer

        serializer: Any = CloudPickleSerializer()
        pickled: bytes = serializer.dumps(parts)
        is_large = len(pickled) > _INLINE_MAX_BYTES
        self._broadcast: Any = context.broadcast(pickled) if is_large else None
        self.load: Callable[[], _T] = _loading(None if is_large else pickled, self._broadcast)

    def forget(self) -> None:
        """Delete it, here and on the executors."""
        if self._broadcast is None:
            return
        try:
            self._broadcast.destroy()
        except Exception as error:  # there is no JVM any more, and its folders go with it
            logger.debug("what was sent to executors was not deleted: %s", gist(error))


def _loading(pickled: bytes | None, broadcast: Any) -> Callable[[], Any]:
    look = look_at_worker()

    def load() -> Any:
        look()
        from pyspark import cloudpickle

        __import__("engine.task.loop")
        return cloudpickle.loads(broadcast.value if pickled is None else pickled)

    return load
