"""Tables of a Unity Catalog by their names in Spark."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import adelta
from adelta import UnityCatalogClient
from tests.support.managed_tables import SCHEMA
from tests.support.unity_catalog import TOKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.unity_catalog import UnityServer


async def created(server: UnityServer) -> None:
    """A table that the catalog manages, with a commit that is in the catalog alone."""
    client = UnityCatalogClient(server.endpoint, "main.default.trips", token=TOKEN)
    staged = await client.stage_table()
    table = await adelta.create_table(
        staged.location,
        SCHEMA,
        properties=staged.properties,
        storage_options=staged.storage_options,
        catalog=client,
    )
    async with table:
        await client.register_table(staged, await table.snapshot(version=0))
        for first in (0, 10):
            rows = pa.table({"id": list(range(first, first + 10))}, schema=SCHEMA)
            await adelta.write_table(table, rows, mode="append")
        await adelta.delete(table, "id = 3")


def test_tables_of_a_unity_catalog_are_read_by_name(
    spark: SparkSession, unity_server: UnityServer
) -> None:
    asyncio.run(created(unity_server))
    own = spark.newSession()
    own.conf.set("spark.adelta.catalog.main.uri", unity_server.endpoint)
    own.conf.set("spark.adelta.catalog.main.token", TOKEN)
    expected = [i for i in range(20) if i != 3]
    assert sorted(row.id for row in own.table("main.default.trips").collect()) == expected
    found = own.sql("SELECT count(*) FROM main.default.trips VERSION AS OF 1 WHERE id < 100")
    assert found.first()[0] == 10
    arrow = own.read.option("nativeScan", "false").table("main.default.trips")  # by the executors
    assert sorted(row.id for row in arrow.collect()) == expected
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.table("main.default.none")
    for statement, says in (
        ("DROP TABLE main.default.trips", "not dropped"),
        ("INSERT INTO main.default.trips VALUES (50)", "catalog"),
    ):
        with pytest.raises(AnalysisException, match=says):
            own.sql(statement)
    assert sorted(row.id for row in own.table("main.default.trips").collect()) == expected
    own.conf.set("spark.adelta.catalog.main.token", "wrong")
    with pytest.raises(AnalysisException, match="PermissionDenied"):
        own.table("main.default.trips")
