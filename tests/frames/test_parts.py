"""Tables in parts: each is read by a task elsewhere, and all that is written is one commit."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync
from adelta.errors import SchemaMismatchError
from adelta.frames.parts import commit_parts, parts_of, plan_parts, write_part

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    for start in range(0, 12, 3):
        rows = pa.table({"id": range(start, start + 3), "p": ["a", "b", "b"]})
        adelta.sync.write_table(uri, rows, partition_by=["p"])
    adelta.sync.delete(uri, "id = 4")
    return uri


def test_parts_are_pickled_and_make_the_whole(uri: str) -> None:
    for part_bytes, least in ((1, 5), (1 << 30, 1)):
        parts = pickle.loads(pickle.dumps(parts_of(uri, part_bytes=part_bytes)))
        assert len(parts) >= least
        rows = pa.concat_tables([part.read() for part in parts])
        assert sorted(rows["id"].to_pylist()) == [n for n in range(12) if n != 4]
    (some,) = parts_of(uri, columns=["id"], where="p = 'a' AND id > 3", version=3)
    assert some.read().to_pydict() == {"id": [6, 9]}
    (none,) = parts_of(uri, where="p = 'z'")
    assert (none.read().num_rows, none.schema.names) == (0, ["id", "p"])


def test_what_is_written_in_parts_is_one_commit(uri: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    schema = pa.schema({"id": pa.int64(), "p": pa.string()})
    for mode, total in (("append", 11), ("append", 22), ("overwrite", 11), ("ignore", 11)):
        job = plan_parts(target, schema, mode=mode, partition_by=["p"])  # type: ignore[arg-type]
        done = [
            pickle.loads(pickle.dumps(write_part(pickle.loads(pickle.dumps(job)), p.read(), n)))
            for n, p in enumerate(parts_of(uri, part_bytes=1))
        ]
        commit_parts(job, done)
        with adelta.sync.open_table(target) as table:
            assert table.snapshot().scan().count() == total
    with adelta.sync.open_table(target) as table:
        assert table.snapshot().version == 2
        assert table.snapshot().partition_columns == ("p",)
    with pytest.raises(SchemaMismatchError):
        plan_parts(target, pa.schema({"id": pa.string()}))
