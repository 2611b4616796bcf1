"""How a table's catalog is reached: by the options that begin with ``catalog.``, and by what
Iceberg's client reads from its own configuration (``PYICEBERG_CATALOG__...``, ``.pyiceberg.yaml``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import PY_IO_IMPL, WAREHOUSE
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from requests.adapters import HTTPAdapter

from engine.sinks.iceberg.durable_io import DurableFileIO, local_path_of

ANSWER_S: Final = 60.0
"""So long a catalog that speaks HTTP may take to answer: Iceberg's client would wait for ever."""
_DURABLE: Final = f"{DurableFileIO.__module__}.{DurableFileIO.__qualname__}"
_NOT_FOR_TASKS: Final = frozenset({"uri", "credential", "token", "auth", "user", "password"})


@dataclass
class TableName:
    """Which table, in which catalog.

    :param catalog: its name, by which catalogs in databases tell their tables.
    :param name: of the table: ``namespace.table``.
    :param properties: of the catalog.
    """

    catalog: str
    name: str
    properties: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        return self.name


class Tables:
    """One table, looked up in its catalog. Not safe to use from several threads."""

    def __init__(self, name: TableName) -> None:
        self.name = name
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = _load(self.name)
        return self._catalog

    def find(self) -> Table | None:
        """As it is now; None if there is none."""
        try:
            table = self.catalog.load_table(self.name.name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        io = table.io
        if local_path_of(table.location()) is not None and type(io) is PyArrowFileIO:
            table.io = DurableFileIO(io.properties)
        return table

    def forget(self) -> None:
        """Connect anew: what was connected may be broken."""
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()


def task_properties(table: Table) -> dict[str, str]:
    """How tasks reach a table's storage, without what is for the catalog alone."""
    return {
        **{
            key: value
            for key, value in table.io.properties.items()
            if isinstance(value, str) and key not in _NOT_FOR_TASKS
        },
        **({PY_IO_IMPL: _DURABLE} if isinstance(table.io, DurableFileIO) else {}),
    }


def _load(name: TableName) -> Catalog:
    catalog = load_catalog(name.catalog, **name.properties)
    if isinstance(catalog, MetastoreCatalog):  # writes a table's metadata itself
        warehouse = catalog.properties.get(WAREHOUSE)
        if warehouse is not None and local_path_of(warehouse) is not None:
            catalog.properties.setdefault(PY_IO_IMPL, _DURABLE)
    if isinstance(catalog, RestCatalog):
        for scheme in ("http://", "https://"):
            catalog._session.mount(scheme, _Impatient())
    return catalog


class _Impatient(HTTPAdapter):
    def send(self, request: Any, **rest: Any) -> Any:  # type: ignore[override]
        return super().send(request, **{**rest, "timeout": rest.get("timeout") or ANSWER_S})
