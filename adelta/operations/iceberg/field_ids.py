"""Whether the files of an Iceberg table bear the field ids that a Delta table finds columns by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent
from adelta.errors import UnsupportedFeatureError
from adelta.parquet.footer.fetch_footer import read_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from adelta.operations.iceberg.metadata import IcebergFile
    from adelta.progress import Meter
    from adelta.storage.object_store import ObjectStore

__all__ = ["check_field_ids"]

_FIELD_ID = b"PARQUET:field_id"
_TAIL = 16 * 1024


async def check_field_ids(store: ObjectStore, files: Sequence[IcebergFile], meter: Meter) -> None:
    """Refuse files without, as were imported; Iceberg finds their columns by a name mapping.

    Of each the footer is read. One that bears ids on some columns has the others' from nowhere, for
    Iceberg too.

    Raises:
        UnsupportedFeatureError: there are such files.
        InvalidTableError: a file is no Parquet, or is damaged.
        StorageError: the store refused or failed.
    """

    async def bears_ids(file: IcebergFile) -> bool:
        metadata = await read_metadata(store, file.path, tail=_TAIL)
        meter.advance()
        return _any_id(metadata.schema.to_arrow_schema())

    bear = await map_concurrent(bears_ids, files, limit=store.concurrency)
    bare = [file.path for file, has_ids in zip(files, bear, strict=True) if not has_ids]
    if bare:
        raise UnsupportedFeatureError(
            f"{store.uri}: {len(bare):,} of {len(files):,} files, {bare[0]} among them, bear no "
            "field ids, by which a converted table finds its columns: they were imported, and "
            "Iceberg finds their columns by name. Have them written again by an Iceberg writer "
            "(rewrite_data_files), and convert the table then, or write its rows to a new one"
        )


def _any_id(fields: Iterable[pa.Field[pa.DataType]]) -> bool:
    return any(
        _FIELD_ID in (field.metadata or {}) or _any_id(_parts(field.type)) for field in fields
    )


def _parts(data_type: pa.DataType) -> list[pa.Field[pa.DataType]]:
    return [data_type.field(place) for place in range(data_type.num_fields)]
