"""Which of Arrow's memory pools rows are decoded into."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync

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
