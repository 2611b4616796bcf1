"""What all operators on a checkpoint have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook, matching_checkpoints
from airflow_provider_continuous.links.query import PAGE_LINKS
from airflow_provider_continuous.tasks.arguments import check_found, given
from engine.errors import ConfigError


class CheckpointOperator(BaseOperator):
    """Acts on one checkpoint.

    :param checkpoint_location: path or URL of the checkpoint (templated);
        ``s3://my_conn@bucket/path`` opens it with an Airflow connection.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    """

    template_fields: Sequence[str] = ("checkpoint_location", "storage_conn_id")
    operator_extra_links = PAGE_LINKS
    ui_color = "#efe6f7"

    def __init__(
        self, *, checkpoint_location: str, storage_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint_location = checkpoint_location
        self.storage_conn_id = storage_conn_id
        self._said = given(storage_conn_id=storage_conn_id)

    def hook(self) -> CheckpointHook:
        """Open the checkpoint.

        :raises ConfigError: no query has ever used it, or the template of an argument has found
            nothing.
        """
        check_found(self, self._said)
        return used_checkpoint(self.checkpoint_location, self.storage_conn_id)

    def matching_hooks(self) -> list[CheckpointHook]:
        """Open all checkpoints that a location with a ``*`` stands for.

        :raises ConfigError: the template of an argument has found nothing.
        """
        check_found(self, self._said)
        return matching_checkpoints(self.checkpoint_location, self.storage_conn_id)

    def engine_hook(self, verb: str) -> CheckpointHook:
        """Open a checkpoint that the engine has run.

        :param verb: what is to be done with it, for the error.
        :raises ConfigError: no query has ever used it, or only Spark itself has.
        """
        hook = self.hook()
        if hook.checkpoint.holder() is None:
            raise ConfigError(
                f"{hook.location.url} cannot be {verb}: only Spark itself has run its query, and "
                "nothing in the checkpoint tells whether it runs now.",
                hint="Stop the query and use the command line: python -m engine --help.",
            )
        return hook


def used_checkpoint(location: str, storage_conn_id: str | None) -> CheckpointHook:
    """Open a checkpoint that a query has used.

    :raises ConfigError: none ever has.
    """
    hook = CheckpointHook(location, storage_conn_id)
    if not hook.exists():
        raise ConfigError(
            f"There is no checkpoint at {hook.location.url}.",
            hint="Check checkpoint_location; a query creates it when it first runs.",
        )
    return hook
