"""How many tasks each stage is to have, as somebody has asked for it, and whether that can be."""

from __future__ import annotations

import logging

from engine.checkpoint.rescaling import want_reducers, wanted_reducers
from engine.errors import CheckpointError, ConfigError
from engine.execution.definition import QueryDefinition

logger = logging.getLogger(__name__)


def asked_reducers(definition: QueryDefinition) -> int | None:
    """None: nobody has asked, or the query keeps no state.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    return wanted_reducers(definition.checkpoint.storage) if definition.keeps_state else None


def heeds(definition: QueryDefinition, groups: int | None) -> bool:
    """Whether a query that runs goes on with as many tasks as are asked for now. The request is
    forgotten: each attempt looks itself for how many it is to have, and heard again by the next one
    it would end that as well. Who asks before the first epoch is committed does not know how many
    there can be: more than that end no query, but are forgotten, too.

    :param groups: how many key groups it has; None: that is not known yet.
    """
    checkpoint = definition.checkpoint
    try:
        checkpoint.requests.forget("rescale")  # first: what is asked for behind this is heard
        if groups is not None:
            definition.reducers(0, groups, asked_reducers(definition))
    except ConfigError as exc:
        want_reducers(checkpoint.storage, None, by="the run")
        logger.warning("the query goes on with as many tasks as it has: %s", exc.message)
        return False
    except CheckpointError as exc:  # the next attempt meets it, too, and has a budget for it
        logger.warning("how many tasks are asked for is not known: %s", exc)
    return True
