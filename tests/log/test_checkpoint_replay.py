"""Pieces of a checkpoint, replayed apart from each other."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.checkpoint.parts import by_part
from adelta.kernel.checksum.file_facts import FileFacts, joined, with_files
from adelta.log.checkpoint_replay import PieceReplay, pieces_of
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.checksum_writer import empty_checksum
from adelta.log.load import load_state
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
V2_PROTOCOL = Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",))
V2 = {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "7"}
KINDS = [
    ({}, None),
    ({"adelta.checkpoint.partSize": "7"}, None),
    (V2, V2_PROTOCOL),
    (V2 | {"adelta.checkpoint.v2Format": "parquet"}, V2_PROTOCOL),
]


@pytest.mark.parametrize(("properties", "protocol"), KINDS)
@pytest.mark.parametrize("size", [1, 5_000, 1 << 30])
async def test_pieces_together_say_what_the_version_says(properties, protocol, size) -> None:
    builder = await TableBuilder.create(
        SCHEMA, partition_by=["p"], properties=properties, protocol=protocol
    )
    await builder.commit(*(builder.add(f"p=0/{n}", rows=n, p="0") for n in range(40)))
    await builder.commit(*(builder.remove(f"p=0/{n}", at=2) for n in range(9)))
    await write_checkpoint(await load_state(builder.store), ManualClock(1_000))
    await builder.commit(builder.remove("p=0/10", at=3), builder.add("new", p="1"))
    state = await load_state(builder.store)
    replay = await state._replay()
    reader, tail = replay.segment.opened.reader, await replay.tail()
    assert reader is not None
    shares = pickle.loads(pickle.dumps(pieces_of(reader, size)))
    assert (len(shares) > 1) == (size < 1 << 30)
    empty = await empty_checksum(state, replay)
    files, removed, counted = [], [], [empty]
    for pieces, alone in [((), tail), *((share, tail.keys_alone()) for share in shares)]:
        found = PieceReplay(builder.store, pieces, alone)
        tables = [table async for table in found.file_batches()]
        files += [path for table in tables for path in table["path"].to_pylist()]
        counted += [with_files(empty, FileFacts.of_table(table)) for table in tables]
        async for table in found.tombstone_batches():
            removed += table["path"].to_pylist()
    everything = (await state.files()).table
    assert sorted(files) == sorted(everything["path"].to_pylist())
    assert sorted(removed) == sorted((await state.tombstones())["path"].to_pylist())
    assert joined(counted) == with_files(empty, FileFacts.of_table(everything))


def test_all_spellings_of_a_path_belong_to_one_part() -> None:
    spellings = ["a b/c", "a%20b/c", "s3://bucket/t/a%20b/c", "s3a://bucket/t/a b/c"]
    parts = by_part(pa.table({"path": spellings}), 1000, "s3://bucket/t")
    assert len(parts) == 1
