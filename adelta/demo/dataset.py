"""TPC-H `orders` and `lineitem` as Parquet files, made by `tpchgen-cli`.

Both tables come in the same number of parts, and a part of one holds the same orders as that part
of the other: a part of each is one delivery to the pipeline.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import anyio
import pyarrow.parquet as pq

from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError

__all__ = ["Dataset", "Delivery", "make_dataset"]

_DELIVERIES = 4


@dataclass(frozen=True, slots=True)
class Delivery:
    """One part of the raw data: a file of each table."""

    orders: Path
    lineitem: Path


@dataclass(frozen=True, slots=True)
class Dataset:
    """The raw data: its deliveries in order, and how many rows all of them hold."""

    folder: Path
    deliveries: tuple[Delivery, ...]
    orders: int
    lines: int


async def make_dataset(folder: Path, scale: float) -> Dataset:
    """The raw data at `scale` below `folder`, made now unless an earlier run has left it there.

    Raises:
        InvalidUseError: `tpchgen-cli` is not installed, or it failed.
    """
    target = folder / f"tpch-{scale:g}"
    if not target.exists():
        await _generate(target, scale)
    return await in_io_thread(_describe, target)


async def _generate(target: Path, scale: float) -> None:
    command = _generator()
    await in_io_thread(target.parent.mkdir, parents=True, exist_ok=True)
    # Made beside its place and moved there, so that an interrupted run leaves no half of it.
    making = Path(await in_io_thread(tempfile.mkdtemp, prefix=".making-", dir=target.parent))
    try:
        arguments = [
            *("--quiet", "--scale-factor", f"{scale:g}", "--parts", str(_DELIVERIES)),
            *("--tables", "orders,lineitem", "--output-dir", str(making)),
        ]
        done = await anyio.run_process([command, "parquet", *arguments], check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
            raise InvalidUseError(f"tpchgen-cli failed at scale {scale:g}: {said[-1]}")
        await in_io_thread(making.rename, target)
    finally:
        with anyio.CancelScope(shield=True):  # an interrupt must not leave gigabytes behind
            await in_io_thread(shutil.rmtree, making, ignore_errors=True)


def _generator() -> str:
    """The program, on the search path or beside the Python that runs this."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = shutil.which("tpchgen-cli") or (str(beside) if beside.exists() else None)
    if found is None:
        raise InvalidUseError(
            "the demo makes its data with tpchgen-cli, which is not installed: "
            "pip install 'adelta[demo]'"
        )
    return found


def _describe(folder: Path) -> Dataset:
    tables = {name: sorted((folder / name).glob("*.parquet"), key=_part) for name in _TABLES}
    pairs = zip(*(tables[name] for name in _TABLES), strict=True)
    rows = {name: sum(pq.read_metadata(path).num_rows for path in tables[name]) for name in _TABLES}
    return Dataset(
        folder, tuple(Delivery(*pair) for pair in pairs), rows["orders"], rows["lineitem"]
    )


_TABLES = ("orders", "lineitem")


def _part(path: Path) -> int:
    """The number in ``orders.12.parquet``."""
    return int(path.name.split(".")[1])
