"""A table as a `pyarrow.dataset.FileSystemDataset`, whose fragments know what is in their files."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.deltalake._add_actions import partition_values, physical_name
from adelta.deltalake._filters import where_of
from adelta.deltalake.exceptions import DeltaProtocolError, raises_as_deltalake
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.data_skipping.bounds import widen
from adelta.kernel.data_skipping.statistic import (
    MAX_VALUES,
    MIN_VALUES,
    NULL_COUNT,
    NUM_RECORDS,
    Statistic,
)
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.schema import types as t
from adelta.kernel.statistics import has_bounds

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
    """The path of each file, and an expression that is true of all of its rows."""
    snapshot = table.snapshot
    schema = snapshot.delta_schema
    partitions = [f for f in schema if f.name in snapshot.partition_columns]
    columns = [
        f for f in schema if f not in partitions and (has_bounds(f.type) or f.type == t.BOOLEAN)
    ]
    where = where_of(predicate, schema)
    files = snapshot.files(where, columns=["path", "partition_values", "stats"])
    statistics = _statistics(files.column("stats"), columns)
    paths, values = (files.column(name).to_pylist() for name in ("path", "partition_values"))
    found = []
    for place, (path, texts) in enumerate(zip(paths, values, strict=True)):
        known = partition_values(dict(texts or ()), partitions)
        conditions = _partition_conditions(known, snapshot.schema)
        conditions += _conditions(statistics, place, [field.name for field in columns])
        expression = reduce(and_, conditions) if conditions else None
        found.append((decode_path(str(path)), expression))
    return found


def _statistics(texts: Any, columns: list[t.StructField]) -> dict[tuple[str, ...], Any]:
    """The statistics of these columns by path, each as an array with a value per file.

    Bounds are widened as for scans, in case the writer has rounded or truncated them.
    """
    wanted = [Statistic((NUM_RECORDS,), (NUM_RECORDS,), t.LONG)]
    for field in columns:
        for kind, of_type in (
            (NULL_COUNT, t.LONG),
            (MIN_VALUES, field.type),
            (MAX_VALUES, field.type),
        ):
            source = (kind, physical_name(field))
            wanted.append(Statistic((kind, field.name), source, of_type))
    found = parse_stats(texts, wanted)
    return {each.path: widen(found[each.path], each) for each in wanted}


def _partition_conditions(known: dict[str, Any], schema: pa.Schema) -> list[Any]:
    import pyarrow.compute as pc

    return [
        pc.field(name).is_null()
        if value is None
        else pc.field(name) == pa.scalar(value, schema.field(name).type)
        for name, value in known.items()
    ]


def _conditions(
    statistics: dict[tuple[str, ...], Any], place: int, columns: list[str]
) -> list[Any]:
    """Conditions that, by its statistics, all rows of the file at index `place` satisfy."""
    import pyarrow.compute as pc

    found: list[Any] = []
    lower: list[Any] = []
    upper: list[Any] = []
    num_records = statistics[NUM_RECORDS,][place].as_py()
    for name in columns:
        field = pc.field(name)
        nulls = statistics[NULL_COUNT, name][place].as_py()
        least, most = statistics[MIN_VALUES, name][place], statistics[MAX_VALUES, name][place]
        if nulls is not None and nulls == num_records:
            found.append(field.is_null())
            continue
        if nulls == 0:
            found.append(field.is_valid())
        if nulls is None:
            continue
        # pyarrow makes use of bounds that stand each by itself.
        if least.is_valid:
            low = field >= least
            lower.append(low if nulls == 0 else low | field.is_null())
        if most.is_valid:
            high = field <= most
            upper.append(high if nulls == 0 else high | field.is_null())
    return found + lower + upper
