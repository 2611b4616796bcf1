"""``local``: the query is a process of its own on this machine, ``python -m engine run``."""

from __future__ import annotations

from airflow_provider_continuous.deploy.launch import launch_detached
from airflow_provider_continuous.deploy.submission import Submission, SubmittedQuery


def start(submission: Submission) -> SubmittedQuery:
    """Start the process, detached from the task."""
    spec_path = submission.write_specification()
    log_path = submission.path(".log")
    command = [*submission.engine(), "run", str(spec_path), "--forget"]
    try:
        process = launch_detached(command, log_path, submission.environment())
    except BaseException:
        spec_path.unlink(missing_ok=True)
        raise
    return SubmittedQuery(
        submission.document["checkpoint_location"],
        process,
        log_path,
        spec_path,
        submission.previous_run_id,
    )
