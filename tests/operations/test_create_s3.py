"""Tables created on S3: what becomes of the handle."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from tests.support.s3_server import S3Location

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("mode", ["error", "ignore"])
async def test_the_handle_of_a_created_table_may_be_dropped(
    mode: Any, s3_location: S3Location
) -> None:
    uri, options = s3_location.uri, s3_location.storage_options
    if mode == "ignore":
        await adelta.create_table(uri, SCHEMA, storage_options=options)
    noises: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: noises.append(told))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        await adelta.create_table(uri, SCHEMA, mode=mode, storage_options=options)
        gc.collect()
    assert (noises, [str(each.message) for each in said]) == ([], [])


async def test_the_handle_of_a_created_table_is_used_as_any_other(s3_location: S3Location) -> None:
    uri, options = s3_location.uri, s3_location.storage_options
    async with await adelta.create_table(uri, SCHEMA, storage_options=options) as table:
        await adelta.write_table(table, pa.table({"id": [1, 2]}))
        assert await (await table.snapshot()).scan().count() == 2
    with pytest.raises(InvalidUseError, match="closed"):
        await table.snapshot()


def test_the_blocking_handle_of_a_created_table_may_be_dropped(s3_location: S3Location) -> None:
    uri, options = s3_location.uri, s3_location.storage_options
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        adelta.sync.create_table(uri, SCHEMA, storage_options=options)
        gc.collect()
    assert [str(each.message) for each in said] == []
    with adelta.sync.create_table(uri, SCHEMA, mode="ignore", storage_options=options) as table:
        adelta.sync.write_table(table, pa.table({"id": [3]}))
        assert table.snapshot().version == 1
