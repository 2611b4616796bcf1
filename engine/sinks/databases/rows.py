"""What a query writes to a table, and how: the options that these sinks share, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from engine.base.connector_options import Options
from engine.errors import ConfigError


@dataclass(frozen=True)
class Mode:
    """How rows get into a table.

    :param key: the columns that a row is found by, to be replaced; empty: rows are appended.
    :param deletes: the column of the query that says that the row of the key is to go.
    :param epoch_column: of the table: gets the epoch.
    """

    key: tuple[str, ...] = ()
    deletes: str | None = None
    epoch_column: str | None = None

    @classmethod
    def of(cls, owner: str, taken: Options) -> Mode:
        """Take the last options of a sink, and refuse the others.

        :param owner: whose they are, for errors: ``sink postgres``.
        :raises ConfigError: one is wrong, or not known.
        """
        mode = taken.choice("mode", "append", ("append", "upsert"))
        names = (taken.text("keyColumns") or "").split(",")
        key = tuple(name.strip() for name in names if name.strip())
        deletes, epoch_column = taken.text("deleteColumn"), taken.text("epochColumn")
        taken.refuse_others()
        if mode == "upsert" and not key:
            raise ConfigError(
                f"{owner}: mode upsert needs the option keyColumns.",
                hint='Set option("keyColumns", "id"), several columns with commas.',
            )
        for name, given in (("keyColumns", key), ("deleteColumn", deletes)):
            if mode == "append" and given:
                raise ConfigError(
                    f"{owner}: the option {name} has no effect in mode append.",
                    hint='Set option("mode", "upsert").',
                )
        if mode == "upsert" and epoch_column:
            raise ConfigError(
                f"{owner}: the option epochColumn has no effect in mode upsert: rows are replaced.",
                hint="Leave it out.",
            )
        return cls(key, deletes or None, epoch_column or None)


@dataclass(frozen=True)
class Rows(Mode):
    """What a query writes.

    :param types: name → Arrow type; without ``deletes``.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def in_mode(cls, mode: Mode, owner: str, schema: pa.Schema) -> Rows:
        """:raises ConfigError: an option names what is not there."""
        deletes = mode.deletes
        for option, names in (("keyColumns", mode.key), ("deleteColumn", filter(None, [deletes]))):
            for name in names:
                if name not in schema.names:
                    raise ConfigError(
                        f"{owner}: the option {option} names {name!r}, which is no column.",
                        hint=f"There are {', '.join(schema.names)}.",
                    )
        if deletes is not None and schema.field(deletes).type != pa.bool_():
            raise ConfigError(
                f"{owner}: the column {deletes} of the option deleteColumn must be BOOLEAN.",
                hint=f"Select a condition: df.withColumn('{deletes}', expr(\"op = 'delete'\")).",
            )
        if mode.epoch_column in schema.names:
            raise ConfigError(
                f"{owner}: the query has a column {mode.epoch_column!r}, which is that of the "
                "option epochColumn."
            )
        types = {each.name: each.type for each in schema if each.name != deletes}
        return cls(**asdict(mode), types=types)

    @property
    def written(self) -> dict[str, pa.DataType]:
        """The columns of the table that get values."""
        own = {} if self.epoch_column is None else {self.epoch_column: pa.int64()}
        return {**self.types, **own}
