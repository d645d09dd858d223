"""Symlink manifests: text files that name a table's data files, for engines that read no log.

There is one for each partition, ``_symlink_format_manifest/part=x/manifest``, or one for a table
without partitions, with the address of a file on each line. A manifest is replaced whole. Of
writers at one table each writes the manifests of what it has changed, and again while it sees that
others have committed meanwhile: so the last one to write knows of all commits.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, InvalidUseError, TableNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.partition import lookup_partition_values, partition_directory
from adelta.log.commit_reader import read_commit
from adelta.log.gone import take_back_if_gone
from adelta.log.refresh import refresh_state
from adelta.progress import Meter
from adelta.storage.addresses import is_absolute_uri

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.log.state import LogState
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectStore

__all__ = ["MANIFESTS_DIR", "ManifestsWritten", "keep_manifests", "write_manifests"]


MANIFESTS_DIR = "_symlink_format_manifest/"
"""The folder of a table's symlink manifests."""

_NAME = "manifest"


@dataclass(frozen=True, slots=True)
class ManifestsWritten:
    """Of which version manifests were written, how many, of how many files; and how many went."""

    version: int
    num_manifests: int
    num_files: int
    num_removed: int


async def write_manifests(
    state: LogState, on_progress: OnProgress | None = None
) -> ManifestsWritten:
    """Write a manifest for every partition, and remove those of partitions without files.

    `on_progress` is told of the manifests.

    Raises:
        InvalidUseError: engines that read manifests would read the table wrongly.
        TableNotFoundError: the table was dropped meanwhile.
        StorageError: the store refused or failed.
    """
    while True:
        written = await _write(state, None, await _manifests(state.store), on_progress)
        newest = await _newest(state)
        if newest.version == state.version:
            return written
        state = newest


async def keep_manifests(state: LogState) -> bool:
    """Write the manifests that the commit which made `state` has changed, if the table keeps any.

    Raises: as `write_manifests` does.
    """
    if not state.configuration.properties.symlink_format_manifest:
        return False
    commit = await read_commit(state.store, state.version)
    if commit.metadata is not None:
        await write_manifests(state)
        return True
    columns = state.configuration.metadata.partition_columns
    changed = [commit.adds, commit.removes]
    if any(table.column("partition_values").null_count for table in changed):
        await write_manifests(state)  # removals of old writers, which do not say from where
        return True
    found = await in_thread(_grouped, changed, columns)
    directories = {directory for directory, _ in found}
    while directories:
        await _write(state, directories, [_path(directory) for directory in directories])
        newest = await _newest(state)
        if newest.version == state.version or newest.metadata != state.metadata:
            break  # whoever has changed the metadata writes all of them
        state = newest
    return True


async def _newest(state: LogState) -> LogState:
    """The latest state of the table. Where that was dropped, its manifests go.

    Raises:
        TableNotFoundError: it was dropped; another one that is in its place has manifests of its
            own, where it keeps any.
        StorageError: the store refused or failed.
    """
    newest = None
    with suppress(TableNotFoundError):
        newest = await refresh_state(state)
        if newest.continues(state):
            return newest
    try:
        await take_back_if_gone(state, await _manifests(state.store))
    except TableNotFoundError:
        if newest is not None and newest.configuration.properties.symlink_format_manifest:
            await write_manifests(newest)
        raise
    return await refresh_state(state)


async def _manifests(store: ObjectStore) -> list[str]:
    """Where there are manifests."""
    paths = [meta.path async for page in store.list(MANIFESTS_DIR) for meta in page]
    return [path for path in paths if path.endswith(f"/{_NAME}")]


async def _write(
    state: LogState,
    only: set[str] | None,
    there: Sequence[str],
    on_progress: OnProgress | None = None,
) -> ManifestsWritten:
    """Write the manifests of the directories `only`, and remove those of `there` without files."""
    if state.configuration.column_mapping_mode != "none":
        raise InvalidUseError(
            f"{state.root} maps its columns, which engines that read manifests do not know of; "
            "read the table by its log"
        )
    columns = ("path", "partition_values", "deletion_vector")
    live = (await state.files_matching(columns=columns)).table
    if live.column("deletion_vector").null_count < live.num_rows:
        raise InvalidUseError(
            f"{state.root} has deletion vectors, so engines that read manifests would read deleted "
            "rows; write these files again without them first, by REORG (`adelta.reorg_purge`)"
        )
    names = state.configuration.metadata.partition_columns
    groups = await in_thread(_grouped, [live], names)
    if not names and not groups:
        groups = [("", [])]  # of a table without partitions there is always one
    wanted = {d: paths for d, paths in groups if only is None or d in only}
    meter = Meter(on_progress, "writing", total=len(wanted), unit="objects")

    async def put(directory: str) -> None:
        paths = wanted[directory]
        await state.store.put(_path(directory), await in_thread(_text, state.root, paths))
        meter.advance()

    await map_concurrent(put, list(wanted), limit=state.store.concurrency)
    gone = sorted(set(there) - {_path(directory) for directory in wanted})
    if gone:
        await state.store.delete(gone)
    files = sum(len(paths) for paths in wanted.values())
    return ManifestsWritten(state.version, len(wanted), files, len(gone))


def _path(directory: str) -> str:
    return f"{MANIFESTS_DIR}{directory}/{_NAME}" if directory else f"{MANIFESTS_DIR}{_NAME}"


def _grouped(tables: Sequence[pa.Table], names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The files' paths by their partitions' directories."""
    files = pa.concat_tables([table.select(["path", "partition_values"]) for table in tables])
    if not names:
        paths: list[Any] = files.column("path").to_pylist()
        return [("", paths)] if paths else []
    maps: Any = files.column("partition_values").combine_chunks()
    columns = {str(at): lookup_partition_values(maps, name) for at, name in enumerate(names)}
    keys = list(columns)
    grouped = pa.table({**columns, "path": files.column("path")})
    rows = grouped.group_by(keys).aggregate([("path", "list")]).to_pylist()
    found: dict[str, list[str]] = {}
    for row in rows:
        values = [(name, row[key]) for name, key in zip(names, keys, strict=True)]
        found.setdefault(partition_directory(values), []).extend(row["path_list"])
    return list(found.items())


def _text(root: str, paths: Sequence[str]) -> bytes:
    lines = []
    if root.startswith("file:"):
        root = unquote(root)  # as the paths are
    for path in sorted(decode_path(path) for path in paths):
        if "\n" in path or "\r" in path:
            raise InvalidTableError(
                f"{root}: the file {path!r} has a line break in its name, which a manifest cannot "
                "hold; write its rows again"
            )
        absolute = path.startswith("/") or is_absolute_uri(path)
        lines.append(path if absolute else f"{root}/{path}")
    return "".join(f"{line}\n" for line in lines).encode()
