"""Features dropped together with the history that has used them (C7-17, B12-14)."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from adelta.errors import HistoryRetainedError, InvalidOptionError, InvalidUseError
from adelta.kernel.actions.protocol import Protocol
from adelta.operations import (
    change_column,
    delete,
    drop_feature,
    history,
    set_properties,
    write_table,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.stores import LaterStore

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
DAY_MS = 86_400_000


class Aging:
    """One table, seen by clocks of which each tells a later time."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def after(self, days: float) -> Table:
        clock = ManualClock(ms=int(time.time() * 1000 + days * DAY_MS))
        later = LaterStore(self.store, round(days * DAY_MS))
        return Table("memory://t", store=later, clock=clock)

    async def versions(self) -> list[int]:
        return [entry.version for entry in await history(self.after(0))]


async def aging(**properties: str) -> Aging:
    made = Aging()
    named = {f"delta.{key}": value for key, value in properties.items()}
    await write_table(made.after(0), ROWS, properties=named)
    return made


async def test_history_goes_a_day_after_the_feature_and_then_every_client_reads() -> None:
    made = await aging(enableDeletionVectors="true")
    await delete(made.after(0), "id = 2")
    with pytest.raises(HistoryRetainedError, match=r"versions up to 2 may.*again when they are"):
        await drop_feature(made.after(0), "deletionVectors", truncate_history=True)
    table = made.after(0)
    assert "delta.enableDeletionVectors" not in (await table.snapshot()).properties
    assert (await table.snapshot()).protocol.reader_features == ("deletionVectors",)
    with pytest.raises(HistoryRetainedError):  # too early
        await drop_feature(made.after(0.5), "deletionVectors", truncate_history=True)
    assert min(await made.versions()) == 0
    done = await drop_feature(made.after(1.1), "deletionVectors", truncate_history=True)
    table = made.after(0)
    snapshot = await table.snapshot()
    assert snapshot.version == done.version
    assert snapshot.protocol == Protocol(1, 2)
    assert min(await made.versions()) > 2
    assert sorted((await snapshot.scan().to_arrow()).column("id").to_pylist()) == [1, 3]
    assert (await history(table, 1))[0].operation_parameters == {
        "featureName": "deletionVectors",
        "truncateHistory": "true",
    }


async def test_how_long_history_stays_is_the_tables_to_say() -> None:
    made = await aging(
        enableTypeWidening="true",
        **{"dropFeatureTruncateHistory.retentionDuration": "interval 3 days"},
    )
    await change_column(made.after(0), "id", type="bigint")
    with pytest.raises(HistoryRetainedError):
        await drop_feature(made.after(0), "typeWidening", truncate_history=True)
    with pytest.raises(HistoryRetainedError):
        await drop_feature(made.after(2), "typeWidening", truncate_history=True)
    await drop_feature(made.after(3.1), "typeWidening", truncate_history=True)
    assert (await made.after(0).snapshot()).protocol == Protocol(1, 2)


async def test_a_feature_that_no_version_has_used_is_dropped_at_once() -> None:
    made = await aging(**{"feature.vacuumProtocolCheck": "supported"})
    await drop_feature(made.after(0), "vacuumProtocolCheck", truncate_history=True)
    assert (await made.after(0).snapshot()).protocol == Protocol(1, 2)
    assert min(await made.versions()) == 0


async def test_a_property_of_an_old_version_counts_though_no_file_has_used_it() -> None:
    made = await aging(enableDeletionVectors="true")
    await set_properties(made.after(0), {"delta.enableDeletionVectors": "false"})
    with pytest.raises(HistoryRetainedError):
        await drop_feature(made.after(0), "deletionVectors", truncate_history=True)


async def test_checkpoints_with_sidecars_are_a_trace() -> None:
    made = await aging(checkpointPolicy="v2", checkpointInterval="1")
    await write_table(made.after(0), ROWS)
    with pytest.raises(HistoryRetainedError):
        await drop_feature(made.after(0), "v2Checkpoint", truncate_history=True)
    await drop_feature(made.after(1.1), "v2Checkpoint", truncate_history=True)
    assert (await made.after(0).snapshot()).protocol == Protocol(1, 2)
    assert (await (await made.after(0).snapshot()).scan().to_arrow()).num_rows == 6


async def test_the_protection_of_checkpoints_goes_with_what_it_protects() -> None:
    made = await aging(enableDeletionVectors="true")
    done = await drop_feature(made.after(0), "deletionVectors")
    with pytest.raises(InvalidUseError, match="truncate_history=True"):
        await drop_feature(made.after(0), "checkpointProtection")
    with pytest.raises(HistoryRetainedError):
        await drop_feature(made.after(0), "checkpointProtection", truncate_history=True)
    await write_table(made.after(0), ROWS)
    await drop_feature(made.after(1.1), "checkpointProtection", truncate_history=True)
    snapshot = await made.after(0).snapshot()
    assert snapshot.protocol == Protocol(1, 2)
    assert snapshot.properties == {}
    assert done.version is not None
    assert min(await made.versions()) >= done.version
    assert (await snapshot.scan().to_arrow()).num_rows == 6


async def test_protection_without_history_before_it_goes_at_once() -> None:
    made = await aging(**{"feature.checkpointProtection": "supported"})
    before = (await made.after(0).snapshot()).version
    done = await drop_feature(made.after(0), "checkpointProtection", truncate_history=True)
    assert done.version == before + 1


async def test_features_that_leave_nothing_behind_have_no_history_to_truncate() -> None:
    made = await aging(**{"feature.domainMetadata": "supported"})
    with pytest.raises(InvalidOptionError, match="leave truncate_history out"):
        await drop_feature(made.after(0), "domainMetadata", truncate_history=True)
