"""Tables of Unity Catalogs in a session: which catalogs it knows, and what opens their tables.

A session knows a catalog by ``spark.adelta.catalog.<name>.uri`` and, where it wants one,
``spark.adelta.catalog.<name>.token``. The catalog says where a table is, and hands out credentials
for it, which go to the executors with the options of the read.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.commit.unity_catalog import UnityCatalogClient
from adelta.errors import InvalidOptionError
from adelta.kernel.table_features import CATALOG_MANAGED
from adelta.spark.options.hadoop_conf import prefixed
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from adelta.commit.unity_catalog import StagedTable

__all__ = [
    "CATALOG_OPTIONS",
    "PlaceInCatalog",
    "catalog_client",
    "known_catalogs",
    "options_in_catalog",
    "place_in_catalog",
]

CATALOG_OPTIONS = ("catalogEndpoint", "catalogTable", "catalogToken")
"""Options of a read of a table that a Unity Catalog manages."""

_SETTING = re.compile(r"spark\.adelta\.catalog\.(\w+)\.uri")


def known_catalogs(spark: SparkSession) -> frozenset[str]:
    """The names of the Unity Catalogs that a session's settings name."""
    matches = (_SETTING.fullmatch(key) for key in spark.conf.getAll)
    return frozenset(match[1] for match in matches if match is not None)


@dataclass(frozen=True, slots=True)
class PlaceInCatalog:
    """Where a new table of a catalog is to be, and the options by which it is written there."""

    staged: StagedTable
    options: Mapping[str, str] = field(repr=False)

    def client(self) -> UnityCatalogClient:
        """A client of the catalog for the table."""
        return _client(self.options)


def place_in_catalog(spark: SparkSession, catalog: str, schema: str, table: str) -> PlaceInCatalog:
    """Ask a catalog for a place for a new table.

    Raises:
        PermissionDeniedError: the catalog does not let this user create it.
        StorageError: the catalog refused or failed.
    """
    said = _said(spark, catalog, schema, table)
    staged = call(_staged, said)
    storage = prefixed(staged.storage_options)
    return PlaceInCatalog(staged, {"path": staged.location, **storage, **said})


async def _staged(said: dict[str, str]) -> StagedTable:
    client = _client(said)
    try:
        return await client.stage_table()
    finally:
        await client.aclose()


def options_in_catalog(
    spark: SparkSession, catalog: str, schema: str, table: str, *, write: bool = False
) -> dict[str, str]:
    """The options by which a table of a catalog is read: where it is, credentials, the catalog.

    With `write` the credentials are for changing it, too.

    Raises:
        TableNotFoundError: the catalog has no such table.
        PermissionDeniedError: the catalog does not let this user read it.
        StorageError: the catalog refused or failed.
    """
    return call(_found, _said(spark, catalog, schema, table), write)


def _said(spark: SparkSession, catalog: str, schema: str, table: str) -> dict[str, str]:
    """The options that name a table of a catalog, and the catalog."""
    setting = f"spark.adelta.catalog.{catalog}"
    said = {
        "catalogEndpoint": spark.conf.get(f"{setting}.uri"),
        "catalogTable": f"{catalog}.{schema}.{table}",
    }
    if (token := spark.conf.get(f"{setting}.token", None)) is not None:
        said["catalogToken"] = token
    return {key: value for key, value in said.items() if value is not None}


async def _found(said: dict[str, str], write: bool) -> dict[str, str]:
    client = _client(said)
    try:
        uri, storage = await client.location(), await client.storage_options(write=write)
    finally:
        await client.aclose()
    managed = client.said_to_be_managed or await _is_managed(uri, storage)
    return {"path": uri, **prefixed(storage), **(said if managed else {})}


async def _is_managed(uri: str, storage: Mapping[str, str]) -> bool:
    """Whether the log of a table says that its commits go through a catalog."""
    async with open_table(uri, storage) as table:
        return (await table.snapshot())._configuration.supports(CATALOG_MANAGED)


def _client(said: Mapping[str, str]) -> UnityCatalogClient:
    client = catalog_client({key.lower(): value for key, value in said.items()})
    assert client is not None
    return client


def catalog_client(given: Mapping[str, str]) -> UnityCatalogClient | None:
    """The client that options, by lower-case key, describe; None where they name no catalog.

    Raises:
        InvalidOptionError: one of them is missing, or wrong.
    """
    endpoint, table, token = (given.get(name.lower()) for name in CATALOG_OPTIONS)
    if endpoint is None and table is None:
        return None
    if endpoint is None or table is None:
        raise InvalidOptionError("catalogEndpoint and catalogTable belong together: give both")
    return UnityCatalogClient(endpoint, table, token=token)
