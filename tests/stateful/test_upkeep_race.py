"""Writers that all see to the log at once: every version reads as its commits say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta._concurrency import map_concurrent
from adelta.kernel.checksum.json import decode
from adelta.kernel.log_path import checksum_path
from adelta.log.checksum_io import verify_checksum
from adelta.log.load import load_state
from tests.support.minimal_reader import MinimalLog, log_objects

if TYPE_CHECKING:
    from pathlib import Path


SCHEMA = pa.schema([("id", pa.int64())])
WRITERS, COMMITS = 4, 8
KINDS = {
    "classic": {},
    "parts": {"adelta.checkpoint.partSize": "3"},
    "v2": {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "3"},
}


@pytest.mark.parametrize("kind", list(KINDS))
async def test_many_writers_checkpoint_sum_up_compact_and_clean_up_at_once(
    kind: str, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    properties = {
        **KINDS[kind],
        "delta.checkpointInterval": "2",
        "adelta.logCompactionInterval": "3",
    }
    await (await adelta.create_table(uri, SCHEMA, properties=properties)).aclose()

    async def write(number: int) -> None:
        async with adelta.open_table(uri) as table:
            for n in range(COMMITS):
                async with table.transaction() as tx:
                    tx.set_transaction(f"writer{number}", n)
                    await tx.append(pa.table({"id": [number * 100 + n]}))
                if n % 3 == 2:
                    await adelta.checkpoint(table)
                    await adelta.cleanup_log(table)

    await map_concurrent(write, range(WRITERS), limit=WRITERS)
    latest = WRITERS * COMMITS
    async with adelta.open_table(uri) as table:
        store = table.store
        log = MinimalLog(await log_objects(store))
        assert log.latest == latest
        assert len(log.checkpoints) > latest // 3
        for version in range(latest + 1):
            plain = log.read(version, checkpointed=False)
            assert plain is not None
            for found in (log.read(version), log.read(version, compacted=True)):
                assert found is not None
                assert found["add"].keys() == plain["add"].keys()
                assert found["txn"] == plain["txn"]
            state = await load_state(store, version=version)
            ours = {(file.path, None) for file in (await state.files()).rows()}
            assert ours == plain["add"].keys()
            stated = decode(await store.get(checksum_path(version)), "the checksum")
            assert stated.num_files == len(ours)
            assert await verify_checksum(state)
        report = await adelta.fsck(table)
        assert report.problems == ()
        ids = (await (await table.snapshot()).scan().to_arrow()).column("id").to_pylist()
    assert sorted(ids) == sorted(w * 100 + n for w in range(WRITERS) for n in range(COMMITS))
