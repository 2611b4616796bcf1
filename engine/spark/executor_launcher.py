"""Runs the tasks as one Spark job whose tasks do not end while the query lives."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError, ContinuousError, TaskLostError
from engine.execution.launcher import CANCEL_TIMEOUT_S, LaunchedTasks, OnEnd
from engine.execution.slots import Slots, supply_of
from engine.logs.json_lines import FORMATS, JSON, SETTING, TEXT
from engine.redaction.logs import describe_trace
from engine.spark.answers import jvm_answers
from engine.spark.failure import gist
from engine.spark.sending import Sent
from engine.spark.workers import refusal
from engine.task.spec import TaskSpec

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)
LEAVE_TIMEOUT_S = 1.0
_WARM_UP = "continuous-standby"
"""The job group."""
_OUR_DOING = re.compile("[Cc]ancelled")


class SparkLauncher:
    """One job per run, in a job group named by the run id.

    Spark itself would leave tasks that find no slot waiting, silently and for ever (SPARK-33274).
    So slots are counted before the launch, and :meth:`LaunchedTasks.unplaced` tells afterwards
    which tasks wait.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        conf = self._context.getConf()
        self.host = conf.get("spark.driver.host") or "127.0.0.1"
        self.bind_host = conf.get("spark.driver.bindAddress")
        if conf.get("spark.speculation", "false").strip().lower() == "true":  # as Spark reads it
            raise ConfigError(
                "Spark would run a second copy of a task that never ends: spark.speculation is on.",
                hint="Set spark.speculation to false.",
            )
        _logs_json(self._context)  # raises here, if at all
        # What Spark does, not what is set: in local mode it allocates nothing.
        self._may_grow = self._context._jsc.sc().executorAllocationManager().isDefined()
        self.supply = supply_of(self._context.master or "local")
        self._warming: Sent[object] | None = None
        self._not_warmed = ""
        """Why, as it was told; a standby tries it again and again."""
        self.application = self._context.applicationId
        self.application_url = self._context.uiWebUrl

    def slots(self) -> Slots | None:
        """None with dynamic allocation: more executors may come.

        :raises ClusterEndedError: there is no JVM any more.
        """
        if self._may_grow:
            return None
        with jvm_answers():
            context = self._context._jsc.sc()
            profile = context.resourceProfileManager().defaultResourceProfile()
            total = context.maxNumConcurrentTasks(profile)
            return Slots(total, max(total - _root_pool(self._context).runningTasks(), 0))

    def warm_up(self, parts: object) -> None:
        """Let each free slot have a Python that has loaded what tasks are made of.

        :param parts: of this query's tasks: the modules that they need are loaded. The same each
            time, until they are forgotten.
        :raises ConfigError: an executor could not run them.
        """
        slots = self.slots()
        count = 1 if slots is None else slots.free
        if not count:
            return

        def warm(_: int) -> None:
            load()

        try:
            if self._warming is None:
                self._warming = Sent(self._context, parts)
            load = self._warming.load
            self._context.setJobGroup(_WARM_UP, "continuous: standing by")
            self._context.parallelize(range(count), count).foreach(warm)
        except Exception as error:
            if (refused := refusal(error)) is not None:
                raise refused from error
            reason = gist(error)
            is_known = reason == self._not_warmed or _OUR_DOING.search(reason)
            level = logging.DEBUG if is_known else logging.WARNING
            logger.log(level, "the executors were not warmed up: %s", reason)
            self._not_warmed = reason

    def end_warm_up(self) -> None:
        """Cancel a :meth:`warm_up` that is under way on another thread."""
        try:
            self._context.cancelJobGroup(_WARM_UP)
        except Exception as error:  # there is no JVM any more, and no job with it
            logger.warning("warming up was not cancelled: %s", gist(error))

    def forget_warm_up(self) -> None:
        """Delete what :meth:`warm_up` has sent to executors."""
        sent, self._warming = self._warming, None
        if sent is not None:
            sent.forget()

    def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
        return _Job(self._context, run_id, specs, on_end)


def _logs_json(context: SparkContext) -> bool:
    """Whether tasks are to log as JSON.

    :raises ConfigError: the session says something else.
    """
    logs = context.getConf().get(SETTING, TEXT)
    if logs not in FORMATS:
        raise ConfigError(f"The setting {SETTING} is {logs!r}: it is none of {', '.join(FORMATS)}.")
    return logs == JSON


class _Job:
    """The Spark job of a run, from a thread of its own.

    It is told from the other jobs of its group, an earlier one that is about to end for example,
    by a tag.
    """

    def __init__(
        self, context: SparkContext, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd
    ) -> None:
        from pyspark import InheritableThread

        self._context, self._run_id, self._on_end = context, run_id, on_end
        self._tasks = list(specs)
        self._tag = f"continuous-{uuid.uuid4()}"
        self._is_left = False
        """The run has ended: that its job is cancelled explains nothing."""
        self._thread = InheritableThread(target=self._run, name=f"spark-job-{run_id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: ContinuousError | None = None
        sent: Sent[list[TaskSpec]] | None = None
        context, tasks, run_id = self._context, self._tasks, self._run_id
        try:
            context.setJobGroup(run_id, f"continuous query {run_id}", interruptOnCancel=True)
            context.addJobTag(self._tag)
            sent = Sent(context, tasks)
            context.parallelize(range(len(tasks)), len(tasks)).foreach(
                _body(sent.load, _logs_json(context))
            )
        except Exception as exc:
            logger.debug("the Spark job of run %s ended\n%s", run_id, describe_trace(exc))
            reason = gist(exc)
            if not (self._is_left and _OUR_DOING.search(reason)):
                error = refusal(exc) or TaskLostError(
                    f"The Spark job of the query failed: {reason}",
                    hint="The executor's log tells more.",
                )
        self._on_end(error)
        if sent is not None:
            sent.forget()

    def unplaced(self) -> int:
        with jvm_answers():
            waiting = _root_pool(self._context).getSortedTaskSetQueue()  # only with pending tasks
            jobs = [waiting.apply(index) for index in range(waiting.size())]
            return sum(
                job.numTasks() - job.tasksSuccessful() - job.runningTasks()
                for job in jobs
                if self._tag in (job.taskSet().properties().getProperty("spark.job.tags") or "")
            )

    def cancel(self) -> None:
        # Dismissed tasks leave by themselves; cancelling at once would have Spark wait 2 s and
        # then kill the Python workers, which the next run would have to start again.
        self._is_left = True
        self._thread.join(timeout=LEAVE_TIMEOUT_S)
        deadline_s = time.monotonic() + CANCEL_TIMEOUT_S
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            self._context.cancelJobsWithTag(self._tag)  # it may not have been submitted before
            self._thread.join(timeout=LEAVE_TIMEOUT_S)
        if self._thread.is_alive():
            logger.warning("Spark has not ended the tasks of run %s: they hang", self._run_id)


def _body(load: Callable[[], list[TaskSpec]], logs_json: bool) -> Callable[[int], None]:
    """Runs the task of an index, on an executor."""

    def body(index: int) -> None:
        spec = load()[index]
        from engine.task.loop import run_task

        if logs_json:
            from engine.logs.json_lines import log_task_as_json

            log_task_as_json(spec)
        run_task(spec)

    return body


def _root_pool(context: SparkContext) -> Any:
    """Spark's own books of what runs now. The public status tracker lags behind by seconds."""
    return context._jsc.sc().taskScheduler().rootPool()
