"""deltalake 1.5, the last one that commits by entries in DynamoDB, in processes of its own.

It is installed beside the deltalake that the other tests use, into a folder below the system's
temporary one, once. Where it cannot be, it is unavailable.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.local_servers import installed_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["EarlierDeltalake", "earlier_deltalake"]

_VERSION = "1.5.0"
_APPEND = """
import json, os, sys
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
uri, options, ids = json.load(sys.stdin)
for number in ids:
    while True:
        try:
            write_deltalake(uri, pa.table({"id": [number]}), mode="append", storage_options=options)
        except CommitFailedError as error:
            print(error, file=sys.stderr)
        else:
            break
table = DeltaTable(uri, storage_options=options)
found = pa.table(table.to_pyarrow_table())["id"].to_pylist()
json.dump({"version": table.version(), "ids": sorted(found)}, sys.stdout)
sys.stdout.flush()
os._exit(0)  # at the end of the interpreter, pyarrow's threads in deltalake's files may abort it
"""


class EarlierDeltalake:
    """A deltalake that takes the storage options of a table to be locked by DynamoDB."""

    def __init__(self, folder: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(folder), "RUST_LOG": "off"}

    def start(
        self, uri: str, options: Mapping[str, str], ids: Sequence[int]
    ) -> subprocess.Popen[str]:
        """A process that appends a row for each of `ids`, and then reads the table."""
        process = subprocess.Popen(
            [sys.executable, "-c", _APPEND],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        upper = {key.upper(): value for key, value in options.items()}
        process.stdin.write(json.dumps([uri, upper, list(ids)]))
        process.stdin.close()
        process.stdin = None
        return process

    def result(self, process: subprocess.Popen[str]) -> tuple[int, list[int]]:
        """The version and the ids that the process has read in the end."""
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-2000:]
        read = json.loads(out)
        return read["version"], read["ids"]

    def append(
        self, uri: str, options: Mapping[str, str], ids: Sequence[int]
    ) -> tuple[int, list[int]]:
        """Append rows, and read the table."""
        return self.result(self.start(uri, options, ids))


@pytest.fixture(scope="session")
def earlier_deltalake() -> EarlierDeltalake:
    """deltalake 1.5."""

    def install(folder: str) -> list[str]:
        options = ["--quiet", "--no-deps", "--target", folder]
        return [sys.executable, "-m", "pip", "install", *options, f"deltalake=={_VERSION}"]

    return EarlierDeltalake(installed_once(f"deltalake-{_VERSION}", install, "deltalake"))
