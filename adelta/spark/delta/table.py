"""DeltaTable: delta-spark's handle on a table, over adelta."""

from __future__ import annotations

from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from adelta.errors import (
    InvalidOptionError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.kernel.table_features import identities_of
from adelta.operations.add_feature import add_feature
from adelta.operations.delete import delete
from adelta.operations.detail import detail
from adelta.operations.drop_feature import drop_feature
from adelta.operations.generate_manifest import generate_manifest
from adelta.operations.history import history
from adelta.operations.restore import restore
from adelta.operations.update import update
from adelta.operations.upgrade_protocol import upgrade_protocol
from adelta.operations.vacuum import vacuum
from adelta.spark.connect.merge_builder import RemoteMergeBuilder
from adelta.spark.delta.argument_types import check_session, check_type
from adelta.spark.delta.clones import Cloned
from adelta.spark.delta.optimize_builder import DeltaOptimizeBuilder
from adelta.spark.delta.shown_frames import ShownFrames
from adelta.spark.delta.table_builder import DeltaColumnBuilder, DeltaTableBuilder
from adelta.spark.delta.table_rows import AFFECTED, DETAIL, HISTORY, detail_row, history_row
from adelta.spark.exceptions import WrongTypeError, known_as_of, raises_as_spark
from adelta.spark.options.hadoop_conf import storage_of_session, storage_options_of
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.options.session_settings import checks_retention, pads_chars
from adelta.spark.rows.expressions import assignments, sql_text, unqualified
from adelta.spark.rows.merge_builder import DeltaMergeBuilder
from adelta.spark.rows.rows_by_spark import NOT_ADELTAS, change_by_spark
from adelta.spark.rows.side_names import Side, in_names_of
from adelta.spark.tables.access import TableAccess, access_by_catalog
from adelta.spark.tables.converting import convert_in_place
from adelta.spark.tables.names import location_of
from adelta.spark.tables.sql_names import frame
from adelta.spark.translate.identifiers import identifier_parts, path_named, quoted
from adelta.spark.translate.zones import condition_in, moment_in, value_in
from adelta.sql.execute.vacuum import restore_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType as TableSchema
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.spark.options.read_write import ReadOptions
    from adelta.spark.tables.creation import CreationMode
    from adelta.table import Table

__all__ = ["DeltaTable"]


class DeltaTable(Cloned):
    """A table as delta-spark's users know it: class and verbs bear delta-spark's names.

    It reads the log with adelta, in the driver, and through Spark Connect in the client; data goes
    through the data source ``adelta``. Errors are those of `adelta.errors`, and at the same time
    the ones that Spark's users know (`adelta.spark.exceptions`).
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        alias: str | None = None,
        name: str | None = None,
    ) -> None:
        options = dict(storage_options or storage_of_session(spark, path))
        self._access = TableAccess(spark, absolute_uri(path), options)
        self._alias = alias
        self._name = name
        self._shown = ShownFrames()  # of this and its aliases

    def __repr__(self) -> str:
        return f"<DeltaTable {self._name or self._path}>"

    # -------------------------------------------------------------------------------- opening

    @classmethod
    @raises_as_spark
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: str,
        hadoopConf: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """The table at `path`: a local path, or a URI of a store.

        `hadoopConf` are storage options, or the settings of Hadoop's for the same (``fs.s3a...``).

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
            InvalidOptionError: an option is unknown.
        """
        check_session(sparkSession)
        check_type("path", path, str, "a string")
        options = {**storage_options_of(hadoopConf or {}), **(storage_options or {})}
        with known_as_of("open"):
            return cls._opened(sparkSession, path, options)

    @classmethod
    @raises_as_spark
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table that the session knows by a name, or the one at the path in ``delta.`path` ``.

        A table of a Unity Catalog that the session knows is read and changed through the catalog.

        Raises:
            TableNotFoundError: there is none of that name, or it is no Delta table; views are none.
            PermissionDeniedError: the catalog does not let this user read it.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
            InvalidOptionError: it is no name.
        """
        check_session(sparkSession)
        check_type("tableOrViewName", tableOrViewName, str, "a string")
        return cls._named(sparkSession, tableOrViewName)

    @classmethod
    @raises_as_spark
    def isDeltaTable(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether there is a Delta table, be it one that adelta can read or not.

        `identifier` is a path, or a name that the session knows.
        """
        check_session(sparkSession)
        check_type("identifier", identifier, str, "a string")
        path = path_named(identifier) or identifier
        try:
            try:
                cls._opened(sparkSession, path, storage_options)
            except TableNotFoundError:
                cls._named(sparkSession, identifier)
        except UnsupportedFeatureError:
            return True
        except (TableNotFoundError, InvalidOptionError):
            return False
        return True

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder of a new table; that there is one already is an error."""
        return cls._builder(sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder of a new table; where there is one, it stays as it is."""
        return cls._builder(sparkSession, "create if not exists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder of a table in place of another one; that there is none is an error."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder of a table, in place of the one that is there if there is one."""
        return cls._builder(sparkSession, "create or replace")

    @classmethod
    def columnBuilder(cls, sparkSession: SparkSession, colName: str) -> DeltaColumnBuilder:
        """A builder of a column, for `DeltaTableBuilder.addColumn`."""
        return DeltaColumnBuilder(sparkSession, colName)

    # -------------------------------------------------------------------------------- reading

    @raises_as_spark
    def toDF(self) -> DataFrame:
        """The rows of the latest version."""
        df = self._rows()
        self._shown.add(df)
        return df

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table, whose columns expressions may name as those of `aliasName`."""
        found = copy(self)
        found._alias = aliasName
        return found

    @raises_as_spark
    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first, at most `limit` of them.

        Raises:
            TableNotFoundError: there is no table.
            InvalidOptionError: `limit` is below 0.
        """
        entries = [] if limit == 0 else self._access.learn(lambda table: history(table, limit))
        return self._spark.createDataFrame([history_row(each) for each in entries], HISTORY)

    @raises_as_spark
    def detail(self) -> DataFrame:
        """One row on what the table is and how large.

        Raises:
            TableNotFoundError: there is no table.
        """
        found = self._access.learn(detail)
        return self._spark.createDataFrame([detail_row(found, self._name)], DETAIL)

    # ------------------------------------------------------------------------------- changing

    @raises_as_spark
    def delete(self, condition: Column | str | None = None) -> DataFrame:
        """Delete the rows for which `condition` is true; all rows without one.

        It is Spark SQL text or a column; times in it are of the session's zone. As `adelta.delete`:
        planned and committed in the driver, in tasks of Spark's where there is much. The result is
        one row, ``num_affected_rows``, which is -1 where whole files went that did not say how many
        rows they had.

        Raises:
            WrongTypeError: the condition is neither.
            InvalidExpressionError: the condition cannot be parsed or computed, or does not fit.
            InvariantViolationError: the table only takes appends.
            CommitConflictError: another commit came first and the work has to be done again.
        """
        try:
            where = None if condition is None else self._condition(condition)
        except NOT_ADELTAS as error:
            done = self._by_spark("delete", condition, {}, error)
            return self._affected(done.num_target_rows_deleted)
        deleted = self._access.run(lambda table: delete(table, where))
        return self._affected(deleted.num_deleted_rows)

    @raises_as_spark
    def update(
        self,
        condition: Column | str | None = None,
        set: Mapping[str, Column | str] | None = None,  # delta-spark's word
    ) -> DataFrame:
        """Set columns, by name, to expressions where `condition` is true.

        All are Spark SQL text or columns; times in them are of the session's zone. As
        `adelta.update`: planned and committed in the driver, in tasks of Spark's where there is
        much. Where no column is named, the rows are written as they are. The result is one row,
        ``num_affected_rows``.

        Raises:
            InvalidOptionError: `set` is None, or a column is set twice.
            WrongTypeError: an expression is neither.
            SchemaMismatchError: there is no such column, it cannot be set, or cannot hold a value.
            InvalidExpressionError: an expression cannot be parsed or computed, or does not fit.
            InvariantViolationError: a row violates a constraint, or the table only takes appends.
            CommitConflictError: another commit came first and the work has to be done again.
        """
        values = assignments("'set'", set) or self._unchanged()
        schema, zone, pads = self._schema(), self._zone, pads_chars(self._spark)
        try:
            where = None if condition is None else self._condition(condition)
            wanted = {
                self._column(name): value_in(zone, self._text(value), schema, pads=pads)
                for name, value in values.items()
            }
        except NOT_ADELTAS as error:
            merged = self._by_spark("update", condition, values, error)
            return self._affected(merged.num_target_rows_updated)
        with known_as_of("update"):
            done = self._access.run(lambda table: update(table, wanted, where, zone=zone))
        return self._affected(done.num_updated_rows)

    @raises_as_spark
    def merge(self, source: DataFrame, condition: Column | str) -> DeltaMergeBuilder:
        """A builder of a merge of the rows of `source`, which match where `condition` is true.

        Raises:
            InvalidOptionError: one of them is None.
            WrongTypeError: `source` is no DataFrame, or `condition` neither text nor a column.
        """
        for what, given in (("source", source), ("condition", condition)):
            if given is None:
                raise InvalidOptionError(f"'{what}' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise WrongTypeError(
                f"Type of 'source' in merge must be DataFrame. Found {type(source)}"
            )
        builder = RemoteMergeBuilder if is_remote() else DeltaMergeBuilder
        return builder(self, source, condition)._checked()

    def optimize(self) -> DeltaOptimizeBuilder:
        """A builder of what is written anew, for fewer and better arranged files."""
        return DeltaOptimizeBuilder(self)

    @raises_as_spark
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that no version within the retention needs, by tasks of Spark's.

        The retention is the table's unless `retentionHours` say another one; a shorter one is
        refused while the session's `spark.databricks.delta.retentionDurationCheck.enabled` is true.
        The result has no rows.

        Raises: as `adelta.vacuum` does.
        """
        hours = None if retentionHours is None else float(retentionHours)
        retention = None if hours is None else timedelta(hours=hours)
        enforced = checks_retention(self._spark)
        with known_as_of("vacuum"):
            self._access.run(
                lambda table: vacuum(table, retention=retention, enforce_retention=enforced)
            )
        return self._spark.createDataFrame([], StructType())

    @raises_as_spark
    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table what it was at a version, by a new one; one row of what that took.

        Raises: as `adelta.restore` does.
        """
        check_type("version", version, int, "an int")
        with known_as_of("restore"):
            done = self._access.run(lambda table: restore(table, version=version))
        return frame(self._spark, restore_answer(done))

    @raises_as_spark
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Make the table what it was at a time, of the session's zone if it names none.

        Raises: as `adelta.restore` does.
        """
        check_type("timestamp", timestamp, str, "a string")
        moment = moment_in(timestamp, self._zone)
        with known_as_of("restore"):
            done = self._access.run(lambda table: restore(table, timestamp=moment))
        return frame(self._spark, restore_answer(done))

    @raises_as_spark
    def generate(self, mode: str) -> None:
        """Write the manifests that engines read which know Parquet alone.

        Raises:
            InvalidOptionError: the mode is not ``"symlink_format_manifest"``.
            AdeltaError: as `adelta.generate_manifest` does.
        """
        check_type("mode", mode, str, "a string")
        if mode.lower() != "symlink_format_manifest":
            raise InvalidOptionError(
                f"there is no mode {mode!r} of generating; it is 'symlink_format_manifest'"
            )
        self._access.run(generate_manifest)

    @classmethod
    @raises_as_spark
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | StructType | None = None,
    ) -> DeltaTable:
        """Make a table of a folder of Parquet files, ``parquet.`/lake/events` ``, in place.

        `partitionSchema` are the columns that the names of its folders tell of. A table of
        Parquet's that the session knows by a name is known by it as a Delta table afterwards. One
        of Iceberg's, ``iceberg.`/lake/events` ``, has to say itself which metadata are its current
        ones; where a catalog knows them, use `adelta.convert_iceberg`. A Delta table stays as it
        is.

        Raises:
            InvalidOptionError: the identifier names nothing that can be converted.
            AdeltaError: as `adelta.convert` does.
        """
        check_session(sparkSession)
        check_type("identifier", identifier, str, "a string")
        location, name = convert_in_place(sparkSession, identifier, partitionSchema)
        return cls(sparkSession, location, name=name)

    @raises_as_spark
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Let the table support all features that two protocol versions stand for.

        Raises:
            InvalidOptionError: there are no such versions.
            UnsupportedFeatureError: adelta cannot write a table with such a feature.
        """
        for what, given in (("readerVersion", readerVersion), ("writerVersion", writerVersion)):
            check_type(f"The {what}", given, int, "an integer")
        self._access.change(lambda table: upgrade_protocol(table, readerVersion, writerVersion))

    @raises_as_spark
    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table support a table feature, and those that it requires.

        Raises:
            UnsupportedFeatureError: adelta does not know the feature, or cannot write a table with
                it.
        """
        check_type("featureName", featureName, str, "a string")
        with known_as_of("add feature"):
            self._access.change(lambda table: add_feature(table, featureName))

    @raises_as_spark
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Let the table no longer support a table feature; with its history, if that is truncated.

        Raises:
            InvalidOptionError: the table does not support the feature.
            InvalidUseError: the feature cannot be dropped, or something has to be dropped first.
            HistoryRetainedError: versions that use it are still kept; call it again later.
        """
        check_type("featureName", featureName, str, "a string")
        if truncateHistory is not None:
            check_type("truncateHistory", truncateHistory, bool, "a boolean")
        truncate = bool(truncateHistory)
        with known_as_of("drop feature"):
            self._access.change(
                lambda table: drop_feature(table, featureName, truncate_history=truncate)
            )

    # --------------------------------------------------------------------------------- inside

    @classmethod
    def _opened(
        cls,
        spark: SparkSession,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> DeltaTable:
        return cls(spark, path, storage_options, name=name)._there()

    @classmethod
    def _named(cls, spark: SparkSession, name: str) -> DeltaTable:
        by_catalog = access_by_catalog(spark, name)
        if by_catalog is None:
            location, known = location_of(spark, name)
            return cls._opened(spark, location, name=known)
        access, known, now = by_catalog
        found = cls(spark, access.path, access.storage_options, name=known)
        found._access = access
        return found._there(now)

    def _there(self, opened: ReadOptions | None = None) -> DeltaTable:
        """This table, when it has been seen that it is one."""
        try:
            self._schema(opened)
        except TableNotFoundError as error:
            shown = self._name or self._path
            raise TableNotFoundError(f"{shown} is not a Delta table: {error}") from error
        return self

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreationMode) -> DeltaTableBuilder:
        spark = check_session(spark or SparkSession.getActiveSession())
        return DeltaTableBuilder(spark, cls._made, mode)

    @classmethod
    def _made(cls, spark: SparkSession, path: str, name: str | None) -> DeltaTable:
        return cls(spark, path, name=name)

    @property
    def _full_name(self) -> tuple[str, ...]:
        """What expressions may call the table: the whole of it, or what it ends with."""
        if self._alias is not None:
            return (self._alias,)
        return () if self._name is None else identifier_parts(self._name)

    def _condition(self, condition: Column | str) -> Node:
        pads = pads_chars(self._spark)
        return condition_in(self._zone, self._text(condition), self._schema(), pads=pads)

    def _text(self, value: object) -> str:
        """The expression as text, over columns that bear no table's name."""
        text = sql_text("'condition'", self._in_names(value), self._rows)
        return unqualified(text, self._schema(), self._full_name[-1:], self._zone)

    def _in_names(self, value: Any) -> Any:
        """The text or column, in which the table bears no other name than its last one."""
        return in_names_of(lambda: (self._side(*self._full_name[-1:]),), value)

    def _side(self, name: str | None = None) -> Side:
        """The table under a name, as one that expressions are about.

        Columns of a DataFrame that `toDF` gave are columns of it, too.
        """
        return Side(name, self._rows(), self._shown, self._full_name)

    def _unchanged(self) -> dict[str, str]:
        """A column that can be set, to what it is.

        Raises:
            InvalidOptionError: there is none.
        """
        name = quoted((self._settable(),))
        return {name: name}

    def _settable(self) -> str:
        schema = self._schema()
        numbered = {column.name for column in identities_of(schema)}
        found = next((field.name for field in schema if field.name not in numbered), None)
        if found is None:
            raise InvalidOptionError("nothing is to be set, and no column can be; name one")
        return found

    def _column(self, name: str) -> str:
        """The column that is to be set, or the field in it, without the table's name."""
        parts = self._column_parts(name)
        return parts[0] if len(parts) == 1 else quoted(parts)

    def _column_parts(self, name: str) -> tuple[str, ...]:
        parts, known = identifier_parts(name), [each.lower() for each in self._full_name]
        for length in range(1, min(len(known), len(parts) - 1) + 1):
            if [part.lower() for part in parts[:length]] == known[-length:]:
                return parts[length:]
        return parts

    def _by_spark(
        self,
        verb: str,
        condition: Column | str | None,
        values: Mapping[str, Column | str],
        reason: Exception,
    ) -> MergeMetrics:
        """A change of rows that Spark finds and computes, where adelta does not for a `reason`."""
        name = self._full_name[-1] if self._full_name else None
        parts = {self._column_parts(each): self._in_names(values[each]) for each in values}
        where = self._in_names(condition)
        return change_by_spark(self._access, name, verb, where, parts, reason)

    @property
    def _spark(self) -> SparkSession:
        return self._access.spark

    @property
    def _path(self) -> str:
        return self._access.path

    def _affected(self, rows: int | None) -> DataFrame:
        return self._spark.createDataFrame([(-1 if rows is None else rows,)], AFFECTED)

    def _rows(self) -> DataFrame:
        df = self._access.rows()
        return df.alias(self._full_name[-1]) if self._full_name else df

    def _schema(self, opened: ReadOptions | None = None) -> TableSchema:
        """The columns of the latest version."""

        async def latest(table: Table) -> TableSchema:
            return (await table.snapshot()).delta_schema

        return self._access.learn(latest, opened)
