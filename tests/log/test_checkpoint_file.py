"""Checkpoints whose rows do not come along with the footer: what is asked for, and when."""

from __future__ import annotations

import io
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import AdeltaError, InvalidTableError, MissingCheckpointPartError
from adelta.kernel.log_path import LogFileKind, LogPath
from adelta.kernel.log_segment import CheckpointFiles
from adelta.log.checkpoint_reader import CheckpointReader
from adelta.storage.memory import MemoryStore
from tests.parquet.test_rare_rows import SCHEMA
from tests.support.stores import CountingStore, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATH = "_delta_log/00000000000000000001.checkpoint.parquet"
VERSIONS = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64())])
FIELDS = [
    pa.field("protocol", VERSIONS),
    pa.field("txn", TXN),
    SCHEMA.field("add"),
    SCHEMA.field("domainMetadata"),
]


def checkpoint(**options: Any) -> bytes:
    """A file whose protocol and transaction are in front of many bytes of another column."""
    choice = Random(3)
    rows: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"txn": {"appId": "app", "version": 7}},
        {"domainMetadata": {"domain": "d", "removed": False}},
    ]
    rows += [{"add": {"path": choice.randbytes(100).hex()}} for _ in range(2000)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(FIELDS)), sink, **options)
    return sink.getvalue()


async def opened(store: CountingStore, size: int) -> CheckpointReader:
    file = LogPath(PATH, LogFileKind.CLASSIC_CHECKPOINT, 1, size)
    return await CheckpointReader.open(store, CheckpointFiles(1, (file,)))


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({}, 4),  # the footer, and with it the domains; the protocol; the transactions, twice
        ({"compression": "brotli"}, 4),
        ({"use_dictionary": False, "column_encoding": {"txn.appId": "DELTA_BYTE_ARRAY"}}, 5),
    ],
)
async def test_what_is_read_by_arrow_is_seldom_asked_for_twice(
    options: dict[str, Any], requests: int
) -> None:
    data = checkpoint(**options)
    store = CountingStore(MemoryStore())
    await store.inner.put(PATH, data)
    reader = await opened(store, len(data))
    assert reader.protocol is not None
    assert reader.protocol.min_reader_version == 1
    for _ in range(2):
        assert [one.app_id for one in await reader.set_transactions()] == ["app"]
    assert [one.domain for one in await reader.domain_metadata()] == ["d"]
    assert store.kinds == {"get": requests}
    store.clear()
    assert len([part async for part in reader.parts()]) == 1
    assert store.count == 0


class MeddlingStore(CountingStore):
    """A store whose object goes, or is written again, once the footer has been read."""

    def __init__(self, after: bytes | None) -> None:
        super().__init__(MemoryStore())
        self._after = after

    async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
        if self.count == 1:
            if self._after is None:
                await self.inner.delete([PATH])
            else:
                await self.inner.put(PATH, self._after)
        return await super().request(request, run)


@pytest.mark.parametrize(
    ("after", "error"),
    [
        (None, MissingCheckpointPartError),
        (checkpoint(compression="none"), InvalidTableError),
    ],
)
async def test_a_checkpoint_that_goes_or_changes_behind_its_footer_is_told(
    after: bytes | None, error: type[AdeltaError]
) -> None:
    data = checkpoint()
    store = MeddlingStore(after)
    await store.inner.put(PATH, data)
    with pytest.raises(error, match=PATH):
        await opened(store, len(data))
