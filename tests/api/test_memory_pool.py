"""Which of Arrow's memory pools rows are decoded into."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync
from adelta._memory import filtered

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
import pyarrow as pa
import adelta.sync

with adelta.sync.open_table(sys.argv[1]) as table:
    rows = table.snapshot().scan().to_arrow()
assert rows["id"].to_pylist() == list(range(100_000))
lasting = pa.jemalloc_memory_pool().bytes_allocated()
print(pa.default_memory_pool().backend_name, lasting >= rows.nbytes)
"""


@pytest.mark.skipif(
    "jemalloc" not in pa.supported_memory_backends(), reason="Arrow has no jemalloc here"
)
@pytest.mark.parametrize(
    ("chosen", "said"),
    [("mimalloc", "mimalloc True\n"), ("system", "system False\n")],
)
def test_rows_are_kept_in_a_pool_that_lasts_unless_the_process_has_chosen_its_own(
    tmp_path: Path, chosen: str, said: str
) -> None:
    uri = str(tmp_path / "table")
    adelta.sync.write_table(uri, pa.table({"id": pa.array(range(100_000))}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": chosen},
    )
    assert (done.stdout, done.stderr) == (said, "")


AGAIN = """
import resource, threading, time
import pyarrow as pa
from adelta._memory import lasting_pool

def faults():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

def take():
    memory = pa.allocate_buffer(64 << 20, memory_pool=lasting_pool())
    view = memoryview(memory).cast("B")
    for at in range(0, len(view), 4096):
        view[at] = 1

def twice():
    take()
    time.sleep(2)
    before = faults()
    take()
    found.append(faults() - before)

found = []
threads = [threading.Thread(target=twice) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(max(found))
"""


@pytest.mark.skipif(
    "jemalloc" not in pa.supported_memory_backends() or sys.platform != "linux",
    reason="Arrow has no jemalloc here, or the system does not count faults of threads",
)
def test_every_thread_gets_back_the_memory_that_it_gave_two_seconds_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], capture_output=True, text=True, timeout=300, check=True
    )
    assert int(done.stdout) < 2000  # of 16,384 pages


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.5, 0.99, 1.0])
def test_rows_are_filtered_alike_however_many_stay(kept: float) -> None:
    numbers = list(range(1000))
    table = pa.table(
        {
            "n": pa.array([None if n % 7 == 0 else n for n in numbers], pa.int64()),
            "s": [f"text {n}" for n in numbers],
            "l": [[n] * (n % 3) for n in numbers],
            "t": [{"x": n} for n in numbers],
        }
    ).slice(3)
    mask = pa.array([n % 100 < kept * 100 for n in range(table.num_rows)], pa.bool_())
    wanted = [row for row, stays in zip(table.to_pylist(), mask.to_pylist(), strict=True) if stays]
    assert filtered(table, mask).to_pylist() == wanted
    (batch,) = table.combine_chunks().to_batches()
    found = filtered(batch, mask)
    assert isinstance(found, pa.RecordBatch)
    assert found.to_pylist() == wanted
    nothing = filtered(table.select([]), mask)
    assert nothing.num_rows == len(wanted)
