"""Tables that streams name: where they are, and those that come to be with a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import TableNotFoundError
from adelta.spark.tables.creation import TableWish, create_as_wished
from adelta.spark.tables.names import find_table
from adelta.spark.translate.identifiers import path_named

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["create_for", "place_of"]


def place_of(spark: SparkSession, name: str, formats: Collection[str]) -> str | None:
    """Where the table of a name is, if it is one of `formats`; None of other names.

    Raises:
        InvalidOptionError: it is no name.
    """
    if (path := path_named(name, formats)) is not None:
        return path
    found = find_table(spark, name)
    if found is None or (found.provider or "").lower() not in formats:
        return None
    if found.location is None:
        raise TableNotFoundError(
            f"the session does not say where the table {name} is; give the stream its path"
        )
    return found.location


def create_for(
    spark: SparkSession,
    name: str,
    schema: StructType,
    *,
    location: str | None,
    partitions: Sequence[str],
    clusters: Sequence[str],
    properties: Mapping[str, str],
) -> str:
    """Create an empty table for the rows of a stream; where it is.

    Raises: as `DeltaTableBuilder.execute` does.
    """
    wish = TableWish(
        name,
        location,
        columns=tuple(schema),
        partitions=tuple(partitions),
        clusters=tuple(clusters),
        properties=properties,
    )
    found, _ = create_as_wished(spark, wish, "create if not exists")
    return found
