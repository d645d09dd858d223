"""The table that a change is about: how it is opened, and what expressions call its columns."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, TableNotFoundError, UnsupportedFeatureError
from adelta.kernel.table_features import identities_of
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.options.session_settings import pads_chars, session_zone
from adelta.spark.rows.expressions import sql_text, unqualified
from adelta.spark.rows.shown_frames import ShownFrames
from adelta.spark.rows.side_names import Side, in_names_of
from adelta.spark.tables.access import TableAccess, access_by_catalog
from adelta.spark.tables.names import location_of
from adelta.spark.translate.identifiers import identifier_parts, path_named, quoted
from adelta.spark.translate.zones import condition_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.spark.options.read_write import ReadOptions
    from adelta.table import Table

__all__ = ["Target", "is_table"]


@dataclass(frozen=True, slots=True)
class Target:
    """A table, under the name by which expressions know it.

    Attributes:
        access: how the table is opened.
        name: its full name in the session; None where it is known by its path.
        alias: what expressions call it instead.
        shown: the DataFrames of it that its user has, whose columns expressions may name.
    """

    access: TableAccess
    name: str | None = None
    alias: str | None = None
    shown: ShownFrames = field(default_factory=ShownFrames)

    @classmethod
    def at(
        cls,
        spark: SparkSession,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Target:
        """The table at a path, be it there or not."""
        options = dict(storage_options or storage_of_session(spark, path))
        return cls(TableAccess(spark, absolute_uri(path), options), name)

    @classmethod
    def named(cls, spark: SparkSession, name: str) -> Target:
        """The table that the session knows by a name, or the one at the path in ``delta.`path` ``.

        Raises:
            TableNotFoundError: there is none of that name, or it is no Delta table.
            PermissionDeniedError: the catalog does not let this user read it.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
            InvalidOptionError: it is no name.
        """
        by_catalog = access_by_catalog(spark, name)
        if by_catalog is None:
            location, full = location_of(spark, name)
            return cls.at(spark, location, name=full).existing()
        access, full, opened = by_catalog
        return cls(access, full).existing(opened)

    def existing(self, opened: ReadOptions | None = None) -> Target:
        """The target, once it is certain that the table is there.

        Raises:
            TableNotFoundError: it is not.
        """
        try:
            self.schema(opened)
        except TableNotFoundError as error:
            shown = self.name or self.access.path
            raise TableNotFoundError(f"{shown} is not a Delta table: {error}") from error
        return self

    def aliased(self, alias: str) -> Target:
        """The same table, whose columns expressions may name as those of `alias`."""
        return replace(self, alias=alias)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.access.spark

    @property
    def zone(self) -> str:
        """The time zone of times that name none."""
        return session_zone(self.spark)

    @property
    def full_name(self) -> tuple[str, ...]:
        """What expressions may call the table: the whole of it, or what it ends with."""
        if self.alias is not None:
            return (self.alias,)
        return () if self.name is None else identifier_parts(self.name)

    def rows(self) -> DataFrame:
        """The rows of the latest version, under the table's name."""
        df = self.access.rows()
        return df.alias(self.full_name[-1]) if self.full_name else df

    def schema(self, opened: ReadOptions | None = None) -> StructType:
        """The columns of the latest version."""

        async def latest(table: Table) -> StructType:
            return (await table.snapshot()).delta_schema

        return self.access.learn(latest, opened)

    def condition(self, condition: Column | str) -> Node:
        """A condition over the table's columns."""
        pads = pads_chars(self.spark)
        return condition_in(self.zone, self.text(condition), self.schema(), pads=pads)

    def text(self, value: object) -> str:
        """An expression as SQL text, over columns that bear no table's name."""
        text = sql_text(self.spark, "'condition'", self.in_names(value), self.rows)
        return unqualified(text, self.schema(), self.full_name[-1:], self.zone)

    def in_names(self, value: Any) -> Any:
        """Text or a column, in which the table bears no other name than its last one."""
        return in_names_of(lambda: (self.side(*self.full_name[-1:]),), value)

    def side(self, name: str | None = None) -> Side:
        """The table under a name, as a side of a change.

        Columns of the DataFrames in `shown` are columns of it, too.
        """
        return Side(name, self.rows(), self.shown, self.full_name)

    def settable(self) -> str:
        """A column that can be set.

        Raises:
            InvalidOptionError: there is none.
        """
        schema = self.schema()
        numbered = {column.name for column in identities_of(schema)}
        found = next((field.name for field in schema if field.name not in numbered), None)
        if found is None:
            raise InvalidOptionError("nothing is to be set, and no column can be; name one")
        return found

    def column(self, name: str) -> str:
        """The column that is to be set, or the field in it, without the table's name."""
        parts = self.column_parts(name)
        return parts[0] if len(parts) == 1 else quoted(parts)

    def column_parts(self, name: str) -> tuple[str, ...]:
        """The parts of the name of a column, without the table's name."""
        parts, known = identifier_parts(name), [each.lower() for each in self.full_name]
        for length in range(1, min(len(known), len(parts) - 1) + 1):
            if [part.lower() for part in parts[:length]] == known[-length:]:
                return parts[length:]
        return parts


def is_table(
    spark: SparkSession, identifier: str, storage_options: Mapping[str, str] | None = None
) -> bool:
    """Whether a path or a name is that of a Delta table, be it one that adelta can read or not."""
    try:
        try:
            Target.at(spark, path_named(identifier) or identifier, storage_options).existing()
        except TableNotFoundError:
            Target.named(spark, identifier)
    except UnsupportedFeatureError:
        return True
    except (TableNotFoundError, InvalidOptionError):
        return False
    return True
