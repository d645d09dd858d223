"""Creating and replacing tables as `DeltaTableBuilder` was told: in the log, and by name."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import types as s

from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    SchemaMismatchError,
    TableNotFoundError,
)
from adelta.kernel.schema.names import without_field_metadata
from adelta.operations.create import create_table, exists, new_table
from adelta.operations.replace import replace_table
from adelta.spark.exceptions import name_taken, no_columns, with_condition
from adelta.spark.options.commits import session_commits
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.options.session_settings import with_default_properties
from adelta.spark.side import NamedTable, side_of
from adelta.spark.tables.names import add_name, drop_name, find_table, format_of, without_views
from adelta.spark.translate.identifiers import path_named
from adelta.spark.translate.types import to_declared_schema, to_spark_schema
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from adelta.kernel.schema.types import StructType
    from adelta.snapshot import Snapshot
    from adelta.spark.side import ManagedPlace
    from adelta.table import Table

__all__ = ["CreationMode", "TableWish", "create_as_wished"]

CreationMode = Literal["create", "create if not exists", "replace", "create or replace"]


@dataclass(frozen=True, slots=True)
class TableWish:
    """What a table is to be like."""

    name: str | None = None
    location: str | None = None
    comment: str | None = None
    columns: tuple[s.StructField, ...] = ()
    partitions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> StructType:
        """The columns as a table has them.

        Raises:
            SchemaMismatchError: a column has a type that Delta does not have.
        """
        return to_declared_schema(s.StructType(list(self.columns)))

    @property
    def layout(self) -> dict[str, Any]:
        """Partitions, clusters and properties, as arguments of adelta's own verbs."""
        return {
            "partition_by": self.partitions,
            "cluster_by": self.clusters,
            "properties": self.properties,
        }


def create_as_wished(
    spark: SparkSession, wish: TableWish, mode: CreationMode
) -> tuple[str, str | None]:
    """Create or replace the table; where it is, and its full name where it has one.

    Raises: as `DeltaTableBuilder.execute` does.
    """
    if mode in ("replace", "create or replace") and not wish.columns:
        raise InvalidOptionError(
            "a table that may replace another one needs columns: say addColumn or addColumns"
        )
    name, location = wish.name, wish.location
    path = None if name is None else path_named(name)
    if path is not None:
        if location is not None and location != path:
            error = InvalidOptionError(
                f"the table is named by the path {path!r}, and its location is {location!r}; "
                "leave one of them out"
            )
            raise with_condition(error, "DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH")
        name, location = None, path
    if name is not None:
        return _by_name(spark, wish, name, mode)
    if location is None:
        error = InvalidOptionError("a table needs a name or a location: say tableName or location")
        raise with_condition(error, "DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION")
    location = absolute_uri(location)
    _in_log(spark, wish, location, mode)
    return location, None


def _by_name(
    spark: SparkSession, wish: TableWish, name: str, mode: CreationMode
) -> tuple[str, str | None]:
    name = without_views(spark, name)
    found = find_table(spark, name)
    if found is None:
        if mode == "replace":
            raise TableNotFoundError(
                f"table {name} cannot be replaced as it did not exist: use createOrReplace to "
                "create it"
            )
        made = _named(spark, wish, name)
        return _place_of(made), made.name
    if mode == "create":
        raise name_taken(
            f"table {name} already exists; use createIfNotExists or createOrReplace, or choose "
            "another name"
        )
    if not found.is_delta:
        raise TableNotFoundError(f"{name} is not a Delta table, so it cannot become one")
    location = _place_of(found)
    if wish.location is not None and absolute_uri(wish.location) != location:
        raise InvalidOptionError(
            f"the location of the existing table {name} is {location!r}, not {wish.location!r}; "
            "leave the location out"
        )
    if mode != "create if not exists":
        _in_log(spark, wish, location, "create or replace" if "create" in mode else "replace")
    return location, found.name


def _named(spark: SparkSession, wish: TableWish, name: str) -> NamedTable:
    """A new table that the session knows by a name."""
    columns = s.StructType(list(wish.columns))
    if wish.location is not None:
        location = absolute_uri(wish.location)
        snapshot = call(_snapshot_if_any, location, storage_of_session(spark, location))
        if snapshot is None:
            if not wish.columns:
                raise no_columns(location)
            _in_log(spark, wish, location, "create")
        else:
            call(_check_same, snapshot, wish)
            columns = to_spark_schema(snapshot.delta_schema)
        return add_name(spark, name, columns, location=location, comment=wish.comment)
    new_table(wish.schema, **wish.layout)  # refused before a name is given away
    place = side_of(spark).managed_place(spark, name)
    if place is not None:
        return _kept(spark, wish, place)
    made = add_name(spark, name, columns, comment=wish.comment)
    try:
        _in_log(spark, wish, _place_of(made), "create")
    except BaseException:
        drop_name(spark, name)
        raise
    return made


def _kept(spark: SparkSession, wish: TableWish, place: ManagedPlace) -> NamedTable:
    """A new table in the folder of the session's catalog: one commit, and then its entry.

    Raises:
        InvalidUseError: the table is there, and the catalog did not take its name.
    """
    _in_log(spark, wish, absolute_uri(place.location), "create")
    known_as = format_of(spark)
    try:
        place.enter(known_as, wish.comment)
    except Exception as error:
        raise InvalidUseError(
            f"the table is at {place.location}, but the session's catalog did not take the name "
            f"{place.name}: {error}; give it a name by CREATE TABLE ... USING {known_as} LOCATION "
            f"'{place.location}', or delete the folder"
        ) from error
    return NamedTable(place.name, known_as, place.location)


def _in_log(spark: SparkSession, wish: TableWish, location: str, mode: CreationMode) -> None:
    """Create or replace the table at a location, with the session's properties for new tables."""
    wish = replace(wish, properties=with_default_properties(wish.properties, spark.conf.getAll))
    storage, commits = storage_of_session(spark, location), session_commits(spark)

    async def do() -> None:
        if mode != "replace":
            async with open_table(location, storage) as table:
                if not await exists(table):
                    await _check_empty(table, location)
        if mode in ("create", "create if not exists"):
            table = await create_table(
                location,
                wish.schema,
                **wish.layout,
                description=wish.comment,
                mode="error" if mode == "create" else "ignore",
                storage_options=storage,
                commits=commits,
            )
            await table.aclose()
            return
        await replace_table(
            location,
            wish.schema,
            **wish.layout,
            description=wish.comment,
            or_create=mode == "create or replace",
            user_metadata=commits.user_metadata,
            storage_options=storage,
        )

    call(do)


async def _check_empty(table: Table, location: str) -> None:
    """Refuse a new table where other files are: they might be taken for its own.

    Raises:
        InvalidOptionError: there are some.
    """
    async with aclosing(table.store.list()) as pages:
        async for page in pages:
            for found in page:
                raise InvalidOptionError(
                    f"the location {location} is not empty and not a Delta table: it holds "
                    f"{found.path!r}; choose another one, or empty it"
                )


async def _snapshot_if_any(location: str, storage_options: Mapping[str, str]) -> Snapshot | None:
    async with open_table(location, storage_options) as table:
        return await table.snapshot() if await exists(table) else None


async def _check_same(snapshot: Snapshot, wish: TableWish) -> None:
    """Refuse a name for a table that is there, and is like something else.

    Raises:
        SchemaMismatchError: it has other columns, or another layout.
    """
    mapping = ("delta.columnMapping.id", "delta.columnMapping.physicalName")
    have = without_field_metadata(snapshot.delta_schema, *mapping)
    if wish.columns and (have, snapshot.partition_columns) != (wish.schema, wish.partitions):
        error = SchemaMismatchError(
            f"the table at the location has the columns {have}, partitioned by "
            f"({', '.join(snapshot.partition_columns)}), which differs from what is specified; "
            "leave the columns out to take them from the table"
        )
        raise with_condition(error, "DELTA_CREATE_TABLE_SCHEME_MISMATCH")
    for key, value in wish.properties.items():
        if snapshot.properties.get(key) != value:
            error = SchemaMismatchError(
                f"the property {key} of the table at the location is "
                f"{snapshot.properties.get(key)!r}, not {value!r}; leave it out"
            )
            raise with_condition(error, "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY")


def _place_of(table: NamedTable) -> str:
    assert table.location is not None
    return absolute_uri(table.location)
