"""Tables that have a commit owner, in Spark: the session names the owner, and its token."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

import adelta.sync
from adelta.owner.access import Right
from adelta.sync._portal import call
from tests.support.owners import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.owners import Owner

_DEFAULTS = "spark.databricks.delta.properties.defaults.managedCommit"


class _Served:
    """A service in a task of its own, of the event loop behind `adelta.sync`."""

    async def start(self, folder: Path) -> tuple[Owner, str]:
        self._over = asyncio.Event()
        ready: asyncio.Future[tuple[Owner, str]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(folder, ready))
        return await ready

    async def _run(self, folder: Path, ready: asyncio.Future[tuple[Owner, str]]) -> None:
        async with running(folder, sweep_seconds=600.0) as owner:
            ready.set_result((owner, await owner.token(Right.OWN)))
            await self._over.wait()

    async def stop(self) -> None:
        self._over.set()
        await self._task


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[Owner, str]]:
    """A service that publishes later than the test ends."""
    served = _Served()
    yield call(served.start, tmp_path)
    call(served.stop)


def test_spark_writes_and_reads_tables_of_the_owner_that_the_session_names(
    spark: SparkSession, owner: tuple[Owner, str], tmp_path: Path
) -> None:
    service, token = owner
    uri, own = str(tmp_path / "t"), spark.newSession()
    own.conf.set(f"{_DEFAULTS}.commitOwner", "adelta")
    own.conf.set(f"{_DEFAULTS}.commitOwnerConf", json.dumps({"endpoint": service.endpoint}))
    own.conf.set("spark.adelta.owner.endpoint", service.endpoint)
    own.conf.set("spark.adelta.owner.token", token)
    own.range(3).write.format("adelta").save(uri)
    for _ in range(2):
        own.range(3).write.format("adelta").mode("append").save(uri)
    options = {"adelta_owner_endpoint": service.endpoint, "adelta_owner_token": token}
    with adelta.sync.open_table(uri, options) as table:
        snapshot = table.snapshot()
        assert (snapshot.version, snapshot.may_be_stale) == (2, False)
        assert snapshot.metadata.configuration["delta.managedCommit.commitOwner"] == "adelta"
    for native in ("true", "false"):
        read = own.read.format("adelta").option("nativeScan", native)
        assert sorted(row.id for row in read.load(uri).collect()) == sorted([0, 1, 2] * 3)
        assert read.option("versionAsOf", "1").load(uri).count() == 6
    other = spark.newSession()  # in which nothing is known of an owner
    told = other.read.format("adelta")
    assert told.load(uri).count() in (3, 6, 9)  # as far as it has been published by now
    with pytest.raises(Exception, match="adelta_owner_endpoint"):
        other.range(1).write.format("adelta").mode("append").save(uri)
    assert told.options(**options).load(uri).count() == 9
    own.sql(f"DELETE FROM adelta.`{uri}` WHERE id = 1")
    source = own.readStream.format("adelta").option("ignoreChanges", "true").load(uri)
    place = tmp_path / "copy"
    sink = source.writeStream.format("adelta").option("checkpointLocation", f"{place}/checkpoint")
    sink.trigger(availableNow=True).start(f"{place}/t").awaitTermination()
    copied = own.read.format("adelta").load(f"{place}/t")
    assert copied.count() == 6
    with adelta.sync.open_table(f"{place}/t", options) as table:
        assert "managedCommit" in (table.snapshot().protocol.writer_features or ())
    adelta.sync.release_table(uri, storage_options=options)
    plain = spark.newSession()
    plain.range(1).write.format("adelta").mode("append").save(uri)
    assert plain.read.format("adelta").load(uri).count() == 7
