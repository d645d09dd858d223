"""How a table that `DeltaTable` is of is opened: by its path, or through the catalog that it is in.

A catalog is asked anew by each operation, as the credentials that it hands out come to an end.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from adelta._dataclasses import dataclass
from adelta.errors import TableNotFoundError
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.options.commits import session_commits
from adelta.spark.options.hadoop_conf import prefixed, storage_of_session
from adelta.spark.options.read_write import ReadOptions
from adelta.spark.options.session_settings import read_settings
from adelta.spark.options.unity import known_catalogs, options_in_catalog
from adelta.spark.side import side_of
from adelta.spark.translate.identifiers import FORMAT, identifier_parts
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from adelta.table import Table

T = TypeVar("T")

__all__ = ["TableAccess", "access_by_catalog", "load"]

_NameInCatalog = tuple[str, str, str]


def load(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """What a read with options of `ReadOptions` gives, as the session's settings have the rest."""
    side = side_of(spark)
    side.ensure_registered(spark)
    named = {key.lower() for key in options}
    said = {**options, **read_settings(spark, named), **side.read_options(spark)}
    path = said.pop("path")
    return spark.read.format(FORMAT).options(**said).load(path)


@dataclass(frozen=True, slots=True)
class TableAccess:
    """Where a table is, and how a session opens it.

    `storage_options` are for its path, and for what lies beside it. `in_catalog` is its name in a
    Unity Catalog that the session knows.
    """

    spark: SparkSession
    path: str
    storage_options: Mapping[str, str] = field(repr=False)
    in_catalog: _NameInCatalog | None = None

    def to_read(self) -> ReadOptions:
        """How it is opened to be read."""
        return self._asked(write=False)

    def to_change(self) -> ReadOptions:
        """How it is opened to be changed."""
        return self._asked(write=True)

    def _asked(self, *, write: bool) -> ReadOptions:
        if self.in_catalog is None:
            return ReadOptions(self.path, self.storage_options)
        return ReadOptions.parse(options_in_catalog(self.spark, *self.in_catalog, write=write))

    def learn(
        self, question: Callable[[Table], Awaitable[T]], opened: ReadOptions | None = None
    ) -> T:
        """What a question to the table gives, which may be `opened` as was found out just now."""
        return call(_within, opened or self.to_read(), question)

    def change(self, operation: Callable[[Table], Awaitable[T]]) -> T:
        """What an operation on the log alone does."""
        commits = session_commits(self.spark)
        return call(_within, self.to_change(), lambda table: operation(table.committing(commits)))

    def run(self, operation: Callable[[Table], Awaitable[T]]) -> T:
        """What an operation does, the tasks of which Spark runs."""
        to = self.to_change()
        return on_cluster(self.spark, to.uri, operation, to.storage_options, to.catalog)

    def rows(
        self,
        version: int | None = None,
        where: str | None = None,
        *,
        timestamp: datetime | None = None,
    ) -> DataFrame:
        """The rows of a version, by default of the latest one; those for which `where` is true."""
        said = {} if version is None else {"versionAsOf": str(version)}
        if timestamp is not None:
            said["timestampAsOf"] = timestamp.isoformat()
        if where is not None:
            said["where"] = where
        if self.in_catalog is None:
            return load(self.spark, {**prefixed(self.storage_options), "path": self.path, **said})
        return load(self.spark, {**options_in_catalog(self.spark, *self.in_catalog), **said})


async def _within(opened: ReadOptions, operation: Callable[[Table], Awaitable[T]]) -> T:
    async with opened.opened() as table:
        return await operation(table)


def access_by_catalog(
    spark: SparkSession, name: str
) -> tuple[TableAccess, str, ReadOptions] | None:
    """How a table is opened whose name is one of a Unity Catalog, and its full name; else None.

    The last one is how it is read now, which the catalog need not be asked again.

    Raises:
        TableNotFoundError: the catalog has no such table.
        PermissionDeniedError: the catalog does not let this user read it.
        InvalidOptionError: it is no name.
    """
    parts = identifier_parts(name)
    if len(parts) != 3 or parts[0] not in known_catalogs(spark):
        return None
    in_catalog = parts[0], parts[1], parts[2]
    try:
        now = ReadOptions.parse(options_in_catalog(spark, *in_catalog))
    except TableNotFoundError as error:
        raise TableNotFoundError(f"{name} is not a Delta table: {error}") from error
    beside = storage_of_session(spark, now.uri)
    return TableAccess(spark, now.uri, beside, in_catalog), ".".join(parts), now
