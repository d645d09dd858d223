"""What is gone from a table and not from its files: deleted rows, and columns that were dropped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread, map_concurrent
from adelta.kernel.schema import types as t
from adelta.kernel.schema.conform import find_fields
from adelta.operations.rearrange.bins import by_partition, pack
from adelta.operations.rearrange.compaction import planned
from adelta.operations.rearrange.cubes import cube_tags
from adelta.operations.rearrange.run import Plan
from adelta.progress import Meter
from adelta.read.opener import open_data_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.schema.conform import ColumnMappingMode
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.rearrange.bins import FileSizes
    from adelta.progress import OnProgress
    from adelta.storage.roots import StoreRoots

__all__ = ["files_to_purge", "has_other_columns", "plan_purge"]

_FOOTERS_AT_ONCE = 32


async def files_to_purge(
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: FileSet,
    on_progress: OnProgress | None = None,
) -> list[AddFile]:
    """The files with a deletion vector, and those with a column that the table does not have.

    The footer of every other file is read.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
    """
    meter = Meter(on_progress, "looking", total=files.num_files)

    async def holds_more(file: AddFile) -> bool:
        found = file.deletion_vector is not None or await _has_other_columns(
            roots, configuration, file
        )
        meter.advance()
        return found

    rows = await in_thread(lambda: list(files.rows()))
    found = await map_concurrent(holds_more, rows, limit=_FOOTERS_AT_ONCE)
    return [file for file, more in zip(rows, found, strict=True) if more]


async def _has_other_columns(
    roots: StoreRoots, configuration: TableConfiguration, file: AddFile
) -> bool:
    parquet = await open_data_file(roots, file)
    return await in_thread(partial(has_other_columns, configuration, parquet.layout.schema))


def has_other_columns(configuration: TableConfiguration, schema: pa.Schema) -> bool:
    """Whether a file with this schema holds a column, or a field, that the table does not have."""
    hidden = {*(configuration.row_id_columns or ()), *configuration.physical_partition_columns}
    stored = [field for field in schema if field.name not in hidden]
    return _lacks(configuration.data_schema, stored, configuration.column_mapping_mode)


def _lacks(
    wanted: t.StructType, stored: Sequence[pa.Field[pa.DataType]], mode: ColumnMappingMode
) -> bool:
    places = find_fields(stored, wanted.fields, mode)
    known = [
        (field, place) for field, place in zip(wanted, places, strict=True) if place is not None
    ]
    return len(known) < len(stored) or any(
        _lacks_inside(field.type, stored[place].type, mode) for field, place in known
    )


def _lacks_inside(wanted: t.DataType, stored: pa.DataType, mode: ColumnMappingMode) -> bool:
    types = pa.types
    match wanted:
        case t.StructType() if types.is_struct(stored):
            return _lacks(wanted, list(stored), mode)
        case t.ArrayType() if types.is_list(stored) or types.is_large_list(stored):
            return _lacks_inside(wanted.element_type, stored.value_type, mode)
        case t.MapType() if types.is_map(stored):
            return _lacks_inside(wanted.key_type, stored.key_type, mode) or _lacks_inside(
                wanted.value_type, stored.item_type, mode
            )
    return False


def plan_purge(
    configuration: TableConfiguration,
    files: Iterable[AddFile],
    sizes: FileSizes,
    *,
    considered: int,
) -> Plan:
    """Bins of all of `files`; those of one cube stay one. CPU-heavy.

    Raises:
        InvalidTableError: a partition value is not of its column's type.
    """
    bins = []
    partitions = 0
    for group in by_partition(files, configuration):
        partitions += 1
        cubes: dict[str, list[AddFile]] = {}
        for file in group:
            cubes.setdefault(cube_tags(file).get("ZCUBE_ID", ""), []).append(file)
        for members in cubes.values():
            tags, provider = cube_tags(members[0]), members[0].clustering_provider
            bins += [
                planned(configuration, each, tags, provider if tags else None)
                for each in pack(members, configuration, sizes, alone=lambda _: True)
            ]
    return Plan(tuple(bins), considered, partitions)
