"""Table features added to tables, and dropped from them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    ConcurrentTransactionError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidUseError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.log_path import checkpoint_path
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import FEATURES, TableFeature, is_supported
from adelta.operations import (
    AlterMetrics,
    add_constraint,
    add_feature,
    create_table,
    delete,
    drop_constraint,
    drop_feature,
    history,
    set_properties,
    write_table,
)
from adelta.table import Table, latest_state, open_table

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3]})


async def new_table(rows: pa.Table = ROWS, **properties: str) -> Table:
    table = open_table(f"memory://{uuid.uuid4()}/table")
    await write_table(table, rows, properties={f"delta.{k}": v for k, v in properties.items()})
    return table


async def protocol(table: Table) -> Protocol:
    return (await table.snapshot()).protocol


async def operations(table: Table) -> list[str | None]:
    return [entry.operation for entry in reversed(await history(table))]


async def commit(table: Table, version: int) -> list[dict[str, Any]]:
    data = await table.store.get(f"_delta_log/{version:020d}.json")
    return [orjson.loads(line) for line in data.splitlines()]


# ------------------------------------------------------------------------------------ add (B1-06)


async def test_a_feature_that_is_added_is_listed_with_all_that_versions_implied() -> None:
    table = await new_table()
    assert await add_feature(table, "DomainMetadata") == AlterMetrics(1)
    assert await protocol(table) == Protocol(
        1, 7, None, ("appendOnly", "domainMetadata", "invariants")
    )
    assert await add_feature(table, "domainMetadata") == AlterMetrics(None)
    assert await add_feature(table, "vacuumProtocolCheck") == AlterMetrics(2)
    assert (await protocol(table)).reader_features == ("vacuumProtocolCheck",)
    assert (await table.snapshot()).properties == {}
    await write_table(table, ROWS)


async def test_versions_that_say_the_same_as_lists_are_preferred() -> None:  # C1-25
    table = await new_table()
    await add_feature(table, "checkConstraints")
    assert await protocol(table) == Protocol(1, 3)
    await add_feature(table, "domainMetadata")
    await drop_feature(table, "domainMetadata")
    assert await protocol(table) == Protocol(1, 3)


async def test_a_feature_that_nobody_knows_is_not_added() -> None:
    table = await new_table()
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        await add_feature(table, "fromTheFuture")
    assert (await table.snapshot()).version == 0


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
async def test_every_feature_is_added_taken_into_account_and_dropped(
    feature: TableFeature, tmp_path: Path
) -> None:
    """B2: what is not written is refused by name, what is not droppable says so."""
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    async with open_table(uri) as table:
        snapshot = await table.snapshot()
        if not feature.can_write and feature.active(
            TableConfiguration(snapshot.protocol, snapshot.metadata)
        ):
            with pytest.raises(UnsupportedFeatureError, match=feature.name):
                await add_feature(table, feature.name)
            return
        if feature.name in ("catalogManaged", "managedCommit"):  # for new tables; with an owner
            with pytest.raises(InvalidPropertyError, match=feature.name):
                await add_feature(table, feature.name)
            return
        await add_feature(table, feature.name)
        supported = await protocol(table)
        assert all(is_supported(each, supported) for each in (feature, *feature.requires))
        await write_table(table, ROWS)
        if feature.removal is None:
            with pytest.raises(InvalidUseError, match=feature.name):
                await drop_feature(table, feature.name)
            return
        truncate = feature.removal.needs_truncation
        await drop_feature(table, feature.name, truncate_history=truncate)
        assert not is_supported(feature, await protocol(table))
        assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 6


# ----------------------------------------------------------------------------------- drop (C7-17)


async def test_a_feature_of_writers_is_dropped_with_one_commit() -> None:
    table = await new_table(**{"feature.domainMetadata": "supported"})
    assert await drop_feature(table, "domainMetadata") == AlterMetrics(1)
    assert await protocol(table) == Protocol(1, 2)
    newest = (await history(table, 1))[0]
    assert newest.operation == "DROP FEATURE"
    assert newest.operation_parameters == {
        "featureName": "domainMetadata",
        "truncateHistory": "false",
    }


async def test_a_feature_that_is_not_there_is_dropped_only_if_asked() -> None:
    table = await new_table()
    with pytest.raises(InvalidOptionError, match="does not support the feature domainMetadata"):
        await drop_feature(table, "domainMetadata")
    assert await drop_feature(table, "domainMetadata", if_exists=True) == AlterMetrics(None)
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        await drop_feature(table, "fromTheFuture", if_exists=True)


async def test_features_that_no_table_can_lose_are_refused() -> None:
    table = await new_table()
    with pytest.raises(InvalidUseError, match="appendOnly cannot be dropped"):
        await drop_feature(table, "appendOnly")


async def test_constraints_stand_in_the_way_of_dropping_their_feature(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    await add_constraint(uri, "positive", "id > 0")
    with pytest.raises(InvalidUseError, match="positive"):
        await drop_feature(uri, "checkConstraints")
    await drop_constraint(uri, "positive")
    await drop_feature(uri, "checkConstraints")
    # a legacy protocol without one of its features is spelt out, and then found to be an older one
    assert (await open_table(uri).snapshot()).protocol == Protocol(1, 2)
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 3


async def test_a_feature_that_another_one_requires_stays() -> None:
    table = await new_table(**{"feature.domainMetadata": "supported"})
    async with table.transaction() as tx:
        both = Protocol(1, 7, None, ("clustering", "domainMetadata"))
        tx._core.staging.metadata, tx._core.staging.protocol = (
            tx.metadata,
            both,
        )  # as another engine would leave it
    with pytest.raises(InvalidUseError, match="supports clustering, which cannot be without"):
        await drop_feature(table, "domainMetadata")


async def test_domain_metadata_go_with_their_feature() -> None:
    table = await new_table(**{"feature.domainMetadata": "supported"})
    async with table.transaction() as tx:
        tx.set_domain_metadata("mine", "{}")
    await drop_feature(table, "domainMetadata")
    assert await (await latest_state(table)).domain_metadata() == {}
    assert await operations(table) == [
        "WRITE",
        "WRITE",
        "DOMAIN METADATA CLEANUP",
        "DROP FEATURE",
    ]


async def test_in_commit_timestamps_are_switched_off_before_they_are_dropped() -> None:
    table = await new_table(enableInCommitTimestamps="true")
    await drop_feature(table, "inCommitTimestamp")
    snapshot = await table.snapshot()
    assert snapshot.protocol == Protocol(1, 2)
    assert snapshot.properties == {"delta.enableInCommitTimestamps": "false"}
    assert await operations(table) == ["WRITE", "UNSET TBLPROPERTIES", "DROP FEATURE"]
    assert "inCommitTimestamp" not in (await commit(table, 2))[0]["commitInfo"]


async def test_row_ids_are_taken_back_before_row_tracking_is_dropped() -> None:
    table = await new_table(enableRowTracking="true")
    await write_table(table, ROWS)
    await drop_feature(table, "rowTracking")
    state = await latest_state(table)
    assert state.protocol.writer_features == ("appendOnly", "domainMetadata", "invariants")
    assert state.metadata.configuration == {}
    assert await state.domain_metadata() == {}
    files = (await state.files()).table
    assert files.num_rows == 2
    assert files.column("base_row_id").null_count == 2
    assert files.column("default_row_commit_version").null_count == 2
    assert await operations(table) == ["WRITE", "WRITE", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]
    told = (await history(table))[1].operation_parameters
    assert told == {"feature": "rowTracking", "batchId": "0"}
    assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 6


async def test_checkpoints_keep_readers_from_versions_that_used_a_feature_of_theirs(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS, properties={"delta.checkpointPolicy": "v2"})
    async with open_table(uri) as table:
        done = await drop_feature(table, "v2Checkpoint")
        assert done == AlterMetrics(5)
        snapshot = await table.snapshot()
        assert snapshot.protocol == Protocol(
            1, 7, None, ("appendOnly", "checkpointProtection", "invariants")
        )
        assert snapshot.properties == {
            "delta.checkpointPolicy": "classic",
            "delta.requireCheckpointProtectionBeforeVersion": "5",
        }
        assert await operations(table) == [
            "WRITE",
            "SET TBLPROPERTIES",
            *["Empty Commit"] * 3,
            "DROP FEATURE",
        ]
        for version in (2, 3, 4, 5):
            await table.store.get(checkpoint_path(version))
        await write_table(table, ROWS)
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 6


async def test_deletion_vectors_are_dropped_by_writing_the_rows_that_they_leave(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path)
    vectors = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    await write_table(uri, ROWS, properties=vectors)
    await write_table(uri, ROWS)
    async with open_table(uri) as table:
        await delete(table, "id = 2")
        before = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
        await drop_feature(table, "deletionVectors")
        snapshot = await table.snapshot()
        files = await snapshot.files()
        assert files.column("deletion_vector").null_count == files.num_rows
        after = await snapshot.scan(with_row_ids=True).to_arrow()
        assert after.sort_by("_row_id").equals(before.sort_by("_row_id"))
        assert snapshot.protocol.reader_features is None
        names = await operations(table)
        assert names[3:5] == ["REORG", "Empty Commit"]
        removes = [line["remove"] for line in await commit(table, 3) if "remove" in line]
        assert all(not remove["dataChange"] for remove in removes)
        assert all("deletionVector" in remove for remove in removes)
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 4


async def test_a_checkpoint_with_sidecars_is_no_longer_needed_once_they_are_dropped() -> None:
    table = await new_table(checkpointPolicy="v2", checkpointInterval="1")
    await write_table(table, ROWS)
    await drop_feature(table, "v2Checkpoint")
    async with open_table(table.uri) as other:
        assert (await other.snapshot()).version == 6
        hint = orjson.loads(await table.store.get("_delta_log/_last_checkpoint"))
        assert hint["version"] == 6
        assert "v2Checkpoint" not in hint


async def test_a_feature_without_traces_is_dropped_without_a_commit_that_removes_them() -> None:
    table = await new_table(**{"feature.vacuumProtocolCheck": "supported"})
    assert await drop_feature(table, "vacuumProtocolCheck") == AlterMetrics(4)
    assert (await protocol(table)).reader_features is None


# ----------------------------------------------------------------------- domain metadata (B12-05)


async def test_a_domain_of_ones_own_is_set_replaced_and_removed() -> None:
    table = await new_table(**{"feature.domainMetadata": "supported"})
    async with table.transaction("Manual Update") as tx:
        tx.set_domain_metadata("mine", '{"a":1}')
    assert (await commit(table, 1))[1:] == [
        {"domainMetadata": {"domain": "mine", "configuration": '{"a":1}', "removed": False}}
    ]
    async with table.transaction() as tx:
        tx.set_domain_metadata("mine", "2")
        tx.set_domain_metadata("other", "")
    known = await (await table.snapshot()).domain_metadata()
    assert known == {"mine": "2", "other": ""}
    async with table.transaction() as tx:
        tx.set_domain_metadata("mine", None)
    assert await (await table.snapshot()).domain_metadata() == {"other": ""}


async def test_two_who_set_a_domain_at_once_conflict() -> None:
    table = await new_table(**{"feature.domainMetadata": "supported"})
    first, second = table.transaction(), table.transaction()
    async with first:
        first.set_domain_metadata("mine", "1")
        async with second:
            second.set_domain_metadata("other", "2")
    assert first.version == 2
    third = await table.transaction().__aenter__()
    third.set_domain_metadata("mine", "3")
    async with table.transaction() as tx:
        tx.set_domain_metadata("mine", "4")
    with pytest.raises(ConcurrentTransactionError, match="'mine'"):
        await third.__aexit__(None, None, None)


async def test_a_domain_of_deltas_own_or_without_the_feature_is_refused() -> None:
    table = await new_table()
    async with table.transaction() as tx:
        with pytest.raises(UnsupportedFeatureError, match="add_feature"):
            tx.set_domain_metadata("mine", "1")
        for name in ("", "delta.rowTracking", "DELTA.mine"):
            with pytest.raises(InvalidOptionError, match=r"begin with 'delta\.'"):
                tx.set_domain_metadata(name, "1")
    assert tx.version is None
    empty = await create_table(
        f"memory://{uuid.uuid4()}/t", ROWS.schema, properties={"delta.checkpointPolicy": "v2"}
    )
    await set_properties(empty, {"delta.feature.domainMetadata": "supported"})
    async with empty.transaction() as tx:
        tx.set_domain_metadata("mine", "1")
    assert tx.version == 2
