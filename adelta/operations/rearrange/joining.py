"""Files whose row groups are large already: joined as they are, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta._concurrency import in_thread, map_concurrent
from adelta.kernel.schema.names import leaf_fields
from adelta.kernel.stats_text import merged_stats
from adelta.read.opener import open_data_file
from adelta.write.chunk_file import ChunkDataFile, ChunkLayout, UncheckedPagesError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.parquet.footer.footer_parts import FooterParts
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.roots import StoreRoots
    from adelta.write.spec import WriteSpec

__all__ = ["joined_file", "may_be_joined"]

_LEAST_BYTES: Final = 1024 * 1024  # of a file, on average
_LEAST_SHARE: Final = 4  # of a full row group, the files' are one part in so many on average
_FOOTERS_AT_ONCE: Final = 8


def may_be_joined(files: Sequence[AddFile]) -> bool:
    """Whether the files could be joined by what the log says of them."""
    return (
        sum(file.size for file in files) >= _LEAST_BYTES * len(files)
        and all(file.deletion_vector is None for file in files)
        and all(file.partition_values == files[0].partition_values for file in files)
    )


async def joined_file(
    roots: StoreRoots, spec: WriteSpec, configuration: TableConfiguration, files: Sequence[AddFile]
) -> AddFile | None:
    """A file of the row groups of `files`, in their order; None where rows are to be encoded anew.

    They are where row groups are small, or are not as they would be written now: of other columns
    or types, by another writer, with another codec; and where pages have no checksums, or the
    statistics of a file do not tell all.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        StorageError: the store refused or failed.
    """
    if not may_be_joined(files):
        return None
    layout = await in_thread(ChunkLayout.of, spec)
    if layout is None:
        return None
    stats = await in_thread(_stats, layout, configuration, files)
    if stats is None:
        return None

    async def opened(file: AddFile) -> tuple[ParquetFile, FooterParts | None]:
        parquet = await open_data_file(roots, file)
        return parquet, await in_thread(layout.parts_of, parquet)

    found = await map_concurrent(opened, files, limit=_FOOTERS_AT_ONCE)
    sources = [(parquet, parts) for parquet, parts in found if parts is not None]
    if len(sources) < len(files) or not await in_thread(_has_large_groups, layout, sources):
        return None
    try:
        async with ChunkDataFile(roots.store, layout, files[0].partition_values) as joined:
            for parquet, parts in sources:
                for number, group in enumerate(parts.groups):
                    await joined.copy(parquet, parts, number, range(len(group.chunks)))
                    joined.end_group(group.num_rows)
            return await joined.finish(stats)
    except UncheckedPagesError:
        return None


def _stats(
    layout: ChunkLayout, configuration: TableConfiguration, files: Sequence[AddFile]
) -> str | None:
    types = {path: field.type for path, field in leaf_fields(configuration.physical_data_schema)}
    return merged_stats([file.stats for file in files], types, layout.files.statistics_leaves)


def _has_large_groups(
    layout: ChunkLayout, sources: Sequence[tuple[ParquetFile, FooterParts]]
) -> bool:
    """Whether the row groups are large enough, on average, to be left as they are."""
    rows = size = count = 0
    for parquet, parts in sources:
        for number, group in enumerate(parts.groups):
            rows += group.num_rows
            size += parquet.layout.decoded_bytes(range(len(group.chunks)), number)
            count += 1
    options = layout.files.options
    share = _LEAST_SHARE
    return rows * share >= options.row_group_rows * count or (
        size * share >= options.row_group_bytes * count
    )
