"""A table as a `pyarrow.dataset.FileSystemDataset`, whose fragments know what is in their files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.deltalake._add_actions import file_statistics, partition_values
from adelta.deltalake._filters import where_of
from adelta.deltalake.exceptions import DeltaProtocolError, raises_as_deltalake
from adelta.kernel.actions.file_actions import decode_path

if TYPE_CHECKING:
    from adelta.deltalake._raw import RawDeltaTable

__all__ = ["dataset_of", "dataset_partitions", "in_dataset"]

_UNKNOWN_TO_PARQUET = ("columnMapping", "deletionVectors", "typeWidening", "typeWidening-preview")


def in_dataset(table: RawDeltaTable) -> bool:
    """Whether the data files, read as they are, hold the table's rows."""
    return not _hindrances(table)


def _hindrances(table: RawDeltaTable) -> list[str]:
    protocol = table.snapshot.protocol
    named = protocol.reader_features or ()
    found = [name for name in _UNKNOWN_TO_PARQUET if name in named]
    mapped = table.snapshot.properties.get("delta.columnMapping.mode", "none") != "none"
    if mapped and "columnMapping" not in found:
        found.append("columnMapping")
    return found


@raises_as_deltalake
def dataset_of(
    table: RawDeltaTable,
    predicate: Any,
    filesystem: Any,
    parquet_read_options: Any,
    schema: Any,
    *,
    storage_options: dict[str, str] | None,
) -> Any:
    """The data set of the files that the predicate leaves.

    Raises:
        DeltaProtocolError: the files do not hold the rows as they are.
    """
    for name in _hindrances(table):
        raise DeltaProtocolError(
            f"The table requires reader feature '{name}' but this is not supported using pyarrow "
            "Datasets. to_pyarrow_table() and scan() read it."
        )
    import pyarrow.dataset as ds  # noqa: TID251 - it is what is asked for
    import pyarrow.fs as pa_fs  # noqa: TID251

    from adelta.deltalake.fs import DeltaStorageHandler

    if filesystem is None:
        handler = DeltaStorageHandler.from_table(table, storage_options, table.get_add_file_sizes())
        filesystem = pa_fs.PyFileSystem(handler)
    file_format = ds.ParquetFileFormat(
        read_options=parquet_read_options,
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True),
    )
    fragments = [
        file_format.make_fragment(path, filesystem=filesystem, partition_expression=expression)
        for path, expression in dataset_partitions(table, predicate)
    ]
    read_options: Any = file_format.read_options
    for name in read_options.dictionary_columns or ():
        place = schema.get_field_index(name)
        if place >= 0:
            field = schema.field(place)
            schema = schema.set(place, field.with_type(pa.dictionary(pa.int32(), field.type)))
    return ds.FileSystemDataset(fragments, schema, file_format, filesystem)


def dataset_partitions(table: RawDeltaTable, predicate: Any) -> list[tuple[str, Any]]:
    """The path of each file, and what is true of all of its rows."""
    snapshot = table.snapshot
    kind = snapshot.delta_schema
    partitions = [f for f in kind if f.name in snapshot.partition_columns]
    others = type(kind)(tuple(f for f in kind if f not in partitions))
    where = where_of(predicate, kind)
    files = snapshot.files(where, columns=["path", "partition_values", "stats"])
    found = []
    for path, values, stats in zip(
        *(files.column(name).to_pylist() for name in ("path", "partition_values", "stats")),
        strict=True,
    ):
        known = partition_values(dict(values or ()), partitions)
        expression = _expression(known, file_statistics(stats, others), table)
        found.append((decode_path(path), expression))
    return found


def _expression(known: dict[str, Any], stats: dict[str, Any], table: RawDeltaTable) -> Any:
    """What is true of all rows of a file."""
    import pyarrow.compute as pc

    schema = table.snapshot.schema
    found: list[Any] = []
    for name, value in known.items():
        scalar = pa.scalar(value, schema.field(name).type)
        found.append(pc.field(name).is_null() if value is None else pc.field(name) == scalar)
    lower: list[Any] = []
    upper: list[Any] = []
    for name, (nulls, least, most) in stats["columns"].items():
        field, arrow = pc.field(name), schema.field(name).type
        if nulls is not None and nulls == stats["num_records"]:
            found.append(field.is_null())
            continue
        if nulls == 0:
            found.append(field.is_valid())
        if least is None or most is None or nulls is None:
            continue
        if pa.types.is_timestamp(arrow):
            most += timedelta(milliseconds=1)  # statistics may be cut to milliseconds
        bounds = (field >= pa.scalar(least, arrow), field <= pa.scalar(most, arrow))
        # each alone, which is the form that pyarrow makes use of
        low, high = bounds if nulls == 0 else [bound | field.is_null() for bound in bounds]
        lower.append(low)
        upper.append(high)
    found += lower + upper
    if not found:
        return None
    whole = found[0]
    for each in found[1:]:
        whole = whole & each
    return whole
