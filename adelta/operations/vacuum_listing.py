"""The objects of a table's root outside of its log: what VACUUM looks through."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._concurrency import in_io_thread, in_thread
from adelta.errors import InvalidOptionError
from adelta.kernel.log_path import LOG_DIR
from adelta.kernel.vacuum import FOUND
from adelta.storage.addresses import file_path
from adelta.storage.parallel_list import list_in_parallel
from adelta.write.batches import record_batches

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.vacuum import KeptFiles, VacuumRules
    from adelta.storage.object_store import FoundFiles, LocalFiles, ObjectMeta, ObjectStore
    from adelta.write.batches import Data

__all__ = ["found_objects", "inventory_objects"]

arrow: Any = pa

_INVENTORY: dict[str, pa.DataType] = {
    "path": pa.large_string(),
    "isDir": pa.bool_(),
    "length": pa.int64(),
    "modificationTime": pa.int64(),
}
_ROWS = 8_192  # objects of a batch, about
_AFTER_LOG = LOG_DIR[:-1] + chr(ord("/") + 1)
"""What sorts after every object of the log, and before all else that does."""


async def found_objects(
    store: ObjectStore, rules: VacuumRules, kept: KeptFiles | None = None
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Batches of `FOUND`: the objects that `rules` do not hide, each in the order of its paths.

    So are the batches, but for those of a store that lists in no order. Of a local disk these are
    regular files that no link leads to, and those that are `kept` may have no size and time.

    Raises:
        StorageError: the store refused or failed.
    """
    if store.local is not None:
        async with aclosing(_local(store.local, rules, kept)) as batches:
            async for batch in batches:
                yield batch
        return
    waiting: list[ObjectMeta] = []
    async with aclosing(_outside_log(store)) as pages:
        async for page in pages:
            waiting += page
            if len(waiting) >= _ROWS:
                yield await in_thread(_visible, waiting, rules, store.lists_in_order)
                waiting = []
    if waiting:
        yield await in_thread(_visible, waiting, rules, store.lists_in_order)


async def inventory_objects(
    store: ObjectStore, inventory: Data, rules: VacuumRules
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Batches of `FOUND`: the files that an inventory has below the table's root, in its order.

    Rows of folders, and of what lies elsewhere, are passed over.

    Raises:
        InvalidOptionError: it lacks a column, or a column is of another type.
    """
    prefixes = _spelled(store.uri)
    async with aclosing(record_batches(inventory)) as batches:
        async for batch in batches:
            yield await in_thread(_listed, batch, prefixes, rules)


def _spelled(uri: str) -> tuple[str, ...]:
    """How the addresses of objects below a root begin, as others spell them."""
    scheme, _, rest = uri.partition(":")
    if scheme == "file":
        path = file_path(uri, rest).rstrip("/")
        names = dict.fromkeys((path, os.path.realpath(path)))
        return tuple(f"{start}{name}/" for name in names for start in ("", "file:", "file://"))
    schemes = ("s3", "s3a", "s3n") if scheme in ("s3", "s3a", "s3n") else (scheme,)
    return tuple(f"{each}:{rest}/" for each in schemes)


def _listed(batch: pa.RecordBatch, prefixes: tuple[str, ...], rules: VacuumRules) -> pa.RecordBatch:
    path, is_directory, size, time = (_column(batch, name) for name in _INVENTORY)
    found = []
    for prefix in prefixes:
        mask = pc.and_kleene(pc.starts_with(path, prefix), pc.invert(is_directory))
        mask = pc.fill_null(mask, False)
        below = pc.utf8_slice_codeunits(path.filter(mask), len(prefix), None)
        columns = [below, size.filter(mask).fill_null(0), time.filter(mask)]
        found.append(arrow.record_batch(columns, schema=FOUND))
    whole: pa.RecordBatch = arrow.concat_batches(found)
    return whole.filter(rules.visible(whole.column(0)))


def _column(batch: pa.RecordBatch, name: str) -> Any:
    kind = _INVENTORY[name]
    try:
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        return column.cast(kind)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        wanted = ", ".join(f"{each} ({what})" for each, what in _INVENTORY.items())
        raise InvalidOptionError(
            f"an inventory has the columns {wanted}, modificationTime in milliseconds since the "
            f"Unix epoch; of this one {name} cannot be read: {error}"
        ) from error


async def _local(
    files: LocalFiles, rules: VacuumRules, kept: KeptFiles | None
) -> AsyncGenerator[pa.RecordBatch, None]:
    def lacking(paths: list[str]) -> list[bool]:
        assert kept is not None
        lacks: Any = kept.lacks(array_of(paths, FOUND.field("path").type)).to_pylist()
        return list(lacks)

    pages = files.own_files(rules.hides, None if kept is None else lacking)

    def read() -> pa.RecordBatch | None:
        page: FoundFiles | None = next(pages, None)
        if page is None:
            return None
        return _batch(page.paths, page.sizes, page.modified_ms)

    while (batch := await in_io_thread(read)) is not None:
        yield batch


async def _outside_log(store: ObjectStore) -> AsyncGenerator[list[ObjectMeta], None]:
    """Pages of what lies before the log, and then of what lies after it.

    Where a store cannot list from some path on, the log is left out of a listing of everything.
    """
    if not store.lists_from_anywhere:
        async with aclosing(store.list_unordered()) as pages:
            async for page in pages:
                yield [meta for meta in page if not LOG_DIR <= meta.path < _AFTER_LOG]
        return
    start = ""
    async for page in list_in_parallel(store, limit=store.concurrency):
        yield [meta for meta in page if not LOG_DIR <= meta.path < _AFTER_LOG]
        if page[-1].path >= LOG_DIR:
            start = max(_AFTER_LOG, page[-1].path)
            break
    if not start:
        return
    async for later in list_in_parallel(store, start_after=start, limit=store.concurrency):
        yield later


def _visible(found: list[ObjectMeta], rules: VacuumRules, in_order: bool) -> pa.RecordBatch:
    if not in_order:
        found = sorted(found, key=lambda meta: meta.path.encode())
    batch = _batch(
        [meta.path for meta in found],
        [meta.size for meta in found],
        [meta.last_modified_ms for meta in found],
    )
    return batch.filter(rules.visible(batch.column(0)))


def _batch(
    paths: list[str], sizes: Sequence[int | None], times: Sequence[int | None]
) -> pa.RecordBatch:
    columns: Any = zip((paths, sizes, times), FOUND, strict=True)
    batch: pa.RecordBatch = arrow.record_batch(
        [array_of(c, f.type) for c, f in columns], schema=FOUND
    )
    return batch
