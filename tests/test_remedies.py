"""Errors name what to do next: the argument, the property, the version to ask for."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    AdeltaError,
    ChangesNotAvailableError,
    SchemaMismatchError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from pathlib import Path


async def said(path: Path, data: pa.Table, **arguments: Any) -> str:
    with pytest.raises(SchemaMismatchError) as caught:
        await adelta.write_table(path, data, **arguments)
    return str(caught.value)


async def test_a_write_that_does_not_fit_says_how_it_would(tmp_path: Path) -> None:
    """And what it says is true."""
    path = tmp_path / "t"
    await adelta.write_table(path, pa.table({"n": pa.array([1], pa.int32())}))
    more = pa.table({"n": pa.array([2], pa.int32()), "x": [1]})
    assert 'schema_mode="merge"' in await said(path, more)
    await adelta.write_table(path, more, schema_mode="merge")
    wide = pa.table({"n": [2**40]})
    assert "delta.enableTypeWidening" in await said(path, wide, schema_mode="merge")
    await adelta.set_properties(path, {"delta.enableTypeWidening": "true"})
    await adelta.write_table(path, wide, schema_mode="merge")
    assert "TypeWidening" not in await said(path, pa.table({"n": ["x"]}), schema_mode="merge")


async def test_a_name_that_needs_column_mapping_says_how_it_is_set(tmp_path: Path) -> None:
    spaced = pa.table({"a b": [1]})
    assert "delta.columnMapping.mode to 'name'" in await said(tmp_path / "t", spaced)
    mapped = {"delta.columnMapping.mode": "name"}
    await adelta.write_table(tmp_path / "t", spaced, properties=mapped)


async def test_nanoseconds_are_refused_with_what_rounds_them(tmp_path: Path) -> None:
    given = pa.table({"t": pa.array([1001], pa.timestamp("ns"))})
    text = await said(tmp_path / "t", given)
    assert "floor_temporal" in text
    rounded = pa.compute.floor_temporal(given["t"], unit="microsecond")
    await adelta.write_table(tmp_path / "t", pa.table({"t": rounded}))


async def test_the_versions_that_can_be_asked_for_stand_in_the_error(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    properties = {"delta.enableExpiredLogCleanup": "false", "delta.enableChangeDataFeed": "true"}
    async with adelta.open_table(path) as table:
        await adelta.write_table(table, pa.table({"n": [0]}), properties=properties)
        for n in range(1, 5):
            await adelta.write_table(table, pa.table({"n": [n]}))
            if n == 3:
                await adelta.checkpoint(table)
        for n in range(3):
            (tmp_path / "t" / "_delta_log" / f"{n:020}.json").unlink()
    async with adelta.open_table(path) as table:
        found = [await refused(table.snapshot(version=version)) for version in (1, 9)]
        assert [(e.earliest_version, e.latest_version) for e in found] == [(3, 4), (None, 4)]
        assert path in str(found[0])
        assert pickle.loads(pickle.dumps(found[0])).earliest_version == 3
        late = await refused(table.snapshot(timestamp="2100-01-01"))
        assert isinstance(late, TimestampOutOfRangeError)
        assert (late.earliest_version, late.latest_version) == (3, 4)
        gone = await refused(first(adelta.changes(table, 0)))
        assert isinstance(gone, ChangesNotAvailableError)
        assert gone.earliest_version == 3
        gone = await refused(first(adelta.tail(table, since=0)))
        assert gone.earliest_version == 3


async def refused(work: Any) -> VersionNotFoundError:
    with pytest.raises(VersionNotFoundError) as caught:
        await work
    return caught.value


async def first(stream: Any) -> Any:
    return await anext(stream)


@pytest.mark.parametrize("option", ["aws_regoin", "AWS_ACCES_KEY_ID", "allow_htp"])
async def test_a_misspelt_storage_option_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(AdeltaError, match=option):
        await adelta.detail(tmp_path / "t", storage_options={option: "x"})
