"""Streams that are stopped in the middle of a micro-batch: each row once, after all."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

import adelta.sync

FILES = 3
LONGEST = 300  # seconds in which a query has got somewhere

pytestmark = pytest.mark.timeout(2 * LONGEST)


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_a_query_that_is_stopped_in_a_batch_goes_on_with_it(spark, tmp_path, moment):
    path, to, begun = (str(tmp_path / name) for name in ("t", "to", "begun"))
    for number in range(FILES):
        adelta.sync.write_table(path, pa.table({"id": [2 * number, 2 * number + 1]}), mode="append")

    def waiting(batches):  # the second file is never done with
        for batch in batches:
            waits = 2 in batch["id"].to_pylist()
            if moment == "behind":
                yield batch
            if waits:
                Path(begun).touch()
                time.sleep(LONGEST)
            if moment == "before":
                yield batch

    def query(change):
        df = change(spark.readStream.format("adelta").option("maxFilesPerTrigger", 1).load(path))
        writer = df.writeStream.format("adelta").option("checkpointLocation", f"{to}-checkpoint")
        return writer.trigger(availableNow=True).start(to)

    stopped = query(lambda df: df.mapInArrow(waiting, df.schema))
    deadline = time.monotonic() + LONGEST
    while not Path(begun).exists():
        assert stopped.isActive, "the query ended by itself"
        assert time.monotonic() < deadline, "the query got nowhere"
        time.sleep(0.05)
    stopped.stop()
    assert not stopped.isActive
    assert stopped.exception() is None
    with adelta.sync.open_table(to) as table:
        assert table.snapshot().scan().to_arrow()["id"].to_pylist() == [0, 1]
        going_on = query(lambda df: df)
        assert going_on.awaitTermination(LONGEST)
        found = table.snapshot().scan().to_arrow()["id"].to_pylist()
        assert sorted(found) == list(range(2 * FILES))
        assert len(adelta.sync.history(table)) == FILES
