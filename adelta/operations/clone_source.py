"""What a clone is made of: a version of a Delta table, or files that are another format's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from adelta._arguments import check_choice
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.file_set import FileSet
from adelta.kernel.history import parse_timestamp
from adelta.kernel.table_features import CLUSTERING_DOMAIN
from adelta.log.time_travel import version_at_timestamp
from adelta.operations.convert import checked_properties, found_in_folder
from adelta.operations.convert_iceberg import found_in_iceberg
from adelta.operations.convert_schema import partition_fields
from adelta.operations.create import ArrowSchema, exists
from adelta.table import latest_state, state_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.progress import OnProgress
    from adelta.table import Table

__all__ = ["CloneSource", "SourceFormat", "SourceWish", "clone_source", "is_delta"]

SourceFormat: TypeAlias = Literal["delta", "parquet", "iceberg"]
"""What the source is: a Delta table, a folder of Parquet files, or an Iceberg table."""


@dataclass(frozen=True, slots=True)
class SourceWish:
    """What is to be cloned, as for `adelta.clone`."""

    format: SourceFormat = "delta"
    version: int | None = None
    timestamp: datetime | str | None = None
    partition_schema: ArrowSchema | StructType | str | None = None
    iceberg_metadata: str | None = None

    def check(self) -> None:
        """Refuse what does not go together.

        Raises:
            InvalidOptionError: something does not.
        """
        check_choice("source_format", self.format, ("delta", "parquet", "iceberg"))
        if self.version is not None and self.timestamp is not None:
            raise InvalidOptionError("give a version or a timestamp, not both")
        if self.format != "delta" and (self.version, self.timestamp) != (None, None):
            raise InvalidOptionError(
                f"a source of the format {self.format!r} is cloned as it is now: leave version and "
                "timestamp out"
            )
        for name, value, needed in (
            ("partition_schema", self.partition_schema, "parquet"),
            ("iceberg_metadata", self.iceberg_metadata, "iceberg"),
        ):
            if value is not None and self.format != needed:
                raise InvalidOptionError(
                    f"{name} is for a source of the format {needed!r}: leave it out, or say "
                    f"source_format={needed!r}"
                )


@dataclass(frozen=True, slots=True)
class CloneSource:
    """The source as it is cloned.

    `name` is what the target's history calls it; `version` is None of other formats, which have no
    versions of Delta's, and whose files may be written again under their names.
    """

    name: str
    root: str
    configuration: TableConfiguration
    files: FileSet
    version: int | None = None
    clustering: DomainMetadata | None = None


async def clone_source(
    table: Table, wish: SourceWish, properties: Mapping[str, str], on_progress: OnProgress | None
) -> CloneSource:
    """What is at the root of `table`, for a clone with `properties` of its own.

    Raises: as `adelta.clone` does.
    """
    if wish.format == "delta":
        return await _of_delta(table, wish)
    if await exists(table):
        raise is_delta(table.uri)
    asked = checked_properties(properties)
    if wish.format == "parquet":
        partitions = partition_fields(wish.partition_schema)
        found = await found_in_folder(table, partitions, asked, on_progress=on_progress)
    else:
        metadata = wish.iceberg_metadata
        found = await found_in_iceberg(table, metadata, asked, on_progress=on_progress)
    return CloneSource(
        name=f"{wish.format}.`{table.uri}`",
        root=table.uri,
        configuration=found.first.configuration,
        files=FileSet.of(found.files),
    )


def is_delta(uri: str) -> InvalidOptionError:
    """The error of a Delta table that is to be cloned as if it were none."""
    return InvalidOptionError(
        f"{uri} is a Delta table, some of whose files may be of other versions: clone it as one, "
        "without a source_format, or as delta.`path`"
    )


async def _of_delta(table: Table, wish: SourceWish) -> CloneSource:
    state = await latest_state(table)
    state.configuration.check_readable(table.uri)
    version = wish.version
    if wish.timestamp is not None:
        version = await version_at_timestamp(state, parse_timestamp(wish.timestamp))
    if version not in (None, state.version):
        state = await state_at(table, version or 0)
    return CloneSource(
        name=table.uri,
        root=state.root,
        configuration=state.configuration,
        files=await state.files(),
        version=state.version,
        clustering=(await state.domain_metadata()).get(CLUSTERING_DOMAIN),
    )
