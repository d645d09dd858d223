"""Other engines that read and write Delta tables, each in a process of its own.

Several bring Arrow, a memory allocator or a Spark of their own along, and their threads may crash
an interpreter at its end. Those whose requirements contradict adelta's are not among its
dependencies: they are installed into a folder of their own, once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tests.support.local_servers import installed_once
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ENGINES", "Engine", "EngineError"]

_WORKER: Final = Path(__file__).with_name("worker.py")
_MODULES: Final[Mapping[str, str]] = {
    "ClickHouse": "chdb",
    "DuckDB": "duckdb_extension_delta",
    "deltalake": "deltalake",
    "polars": "polars",
}
_APART: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    # It asks for a pyarrow before 26, and does with later ones; it writes with a part of pyiceberg.
    "daft": (
        "daft",
        (
            "daft==0.7.26",
            "tqdm<4.68",
            "pyiceberg==0.12.*",
            "cachetools",
            "fsspec",
            "mmh3",
            "strictyaml",
            "tenacity",
        ),
    ),
    # It knows Spark up to 4.2, and goes by the version of the PySpark that it is used with.
    "Sail": (
        "pysail",
        (
            "pysail==0.7.2",
            "pyspark-client==4.2.*",
            "googleapis-common-protos",
            "grpcio",
            "grpcio-status",
            "protobuf",
            "zstandard",
        ),
    ),
}
ENGINES: Final = tuple(sorted((*_MODULES, *_APART)))
"""Their names."""


class EngineError(Exception):
    """The engine has refused what it was asked for."""


class Engine:
    """An engine that is running. One request is under way at a time, whichever thread asks."""

    def __init__(self, name: str, folder: Path) -> None:
        """`folder` is where it may leave files. ClickHouse reads no tables but those below it."""
        self.name = name
        self._rows = folder / f"{name}.arrow"
        self._said = folder / f"{name}.txt"
        self._turn = threading.Lock()
        environment = {**os.environ, "PYTHONPATH": _python_path(name), "RUST_LOG": "off"}
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, str(_WORKER), name],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        self.version = str(self._answer()["version"])

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def read(self, root: Path, version: int | None = None) -> pa.Table:
        """The rows of a table."""
        return self._read({"what": "read", "root": str(root), "version": version})

    def changes(self, root: Path) -> pa.Table:
        """The change data feed of a table, from its first version on."""
        return self._read({"what": "changes", "root": str(root)})

    def append(self, root: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows in one commit."""
        with self._turn:
            self._ask({"what": "append", "root": str(root), "rows": list(rows)})

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self, request: dict[str, Any]) -> pa.Table:
        with self._turn:
            self._ask({**request, "into": str(self._rows)})
            return pa.ipc.open_file(pa.BufferReader(self._rows.read_bytes())).read_all()

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        error = self._answer().get("error")
        if error is not None:
            raise EngineError(error)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._said.read_text(errors="replace")[-2000:]
            raise EngineError(f"{self.name} has ended ({self._process.wait()}): {said}")
        found: dict[str, Any] = json.loads(line)
        return found


def _python_path(name: str) -> str:
    """Where the engine is, if not among what is installed beside adelta."""
    if name in _MODULES:
        if find_spec(_MODULES[name]) is None:
            unavailable(f"{name} is not installed: there is none for this machine")
        return ""
    marker, packages = _APART[name]

    def install(folder: str) -> list[str]:
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--target", folder]
        if name == "Sail":
            options[2:4] = []  # the client of Spark is pure Python, and comes as its source alone
        return [sys.executable, "-m", "pip", "install", *options, *packages]

    return str(installed_once(f"{name}-{packages[0].split('==')[1]}", install, marker))
