"""convert_to_deltalake: Parquet files into a table, in place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adelta import sync
from adelta.deltalake._actions import commit_options
from adelta.deltalake._protocol import NEW
from adelta.deltalake._storage_options import known_options
from adelta.deltalake._types import Schema
from adelta.deltalake._util import deprecate_positional_commit_args
from adelta.deltalake.exceptions import DeltaError, raises_as_deltalake
from adelta.deltalake.writer._utils import try_get_deltatable
from adelta.deltalake.writer.modes import check_known_keys, properties_of, split_properties
from adelta.errors import InvalidOptionError, TableNotFoundError
from adelta.kernel.schema.types import StructType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from adelta import CommitOptions
    from adelta.deltalake._actions import CommitProperties, PostCommitHookProperties

__all__ = ["convert_to_deltalake"]


def convert_to_deltalake(
    uri: str | Path,
    mode: Literal["error", "ignore"] = "error",
    partition_by: Schema | None = None,
    partition_strategy: Literal["hive", "directory"] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: dict[str, str] | None = None,
    *args: Any,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Make a table of the Parquet files in a folder, in one commit.

    `partition_by` are the columns that folders name: as ``k=v`` with the strategy ``hive``, by
    their values alone with ``directory``.

    Raises:
        ValueError: there are partition columns without a strategy, or there is no such strategy.
        DeltaError: there is a table already, or no Parquet file, or a file that does not fit.
    """
    commit, after = deprecate_positional_commit_args(
        "convert_to_deltalake", args, commit_properties, post_commithook_properties
    )
    if partition_by is not None and partition_strategy is None:
        raise ValueError("Partition strategy has to be provided with partition_by.")
    if partition_strategy not in (None, "hive", "directory"):
        raise ValueError("Partition strategy must be `hive` or `directory`.")
    there = try_get_deltatable(uri, storage_options) is not None
    if there and mode == "ignore":
        return
    if there:
        raise DeltaError("Generic error: The given location is already a delta table location")
    if partition_by is not None and not isinstance(partition_by, Schema):
        raise TypeError(f"'{type(partition_by).__name__}' object is not an instance of 'Schema'")
    properties = properties_of(configuration)
    check_known_keys(properties)
    properties, beside = split_properties(properties)
    _convert(
        str(uri),
        None if partition_by is None else StructType(partition_by._kind.fields),
        partition_strategy or "hive",
        name,
        description,
        properties,
        storage_options,
        collect_stats,
        replace(commit_options(commit, after), properties=beside, before=NEW),
    )


@raises_as_deltalake
def _convert(
    uri: str,
    partitions: StructType | None,
    strategy: Literal["hive", "directory"],
    name: str | None,
    description: str | None,
    properties: dict[str, str],
    storage_options: dict[str, str] | None,
    collects: bool,
    options: CommitOptions,
) -> None:
    try:
        sync.convert(
            uri,
            partition_schema=partitions,
            folder_names=strategy,
            collect_statistics=collects,
            name=name,
            description=description,
            properties=properties,
            storage_options=known_options(storage_options),
            commits=options,
        )
    except TableNotFoundError as error:
        raise DeltaError(
            f"Generic error: No parquet file is found in the given location: {error}"
        ) from error
    except InvalidOptionError as error:
        if partitions is None:
            raise DeltaError(
                "Generic error: The schema of partition columns must be provided to convert a "
                f"Parquet table to a Delta table: {error}"
            ) from error
        raise
