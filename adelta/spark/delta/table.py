"""DeltaTable: delta-spark's handle on a table, over adelta."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from adelta.errors import InvalidOptionError
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations.add_feature import add_feature
from adelta.operations.detail import detail
from adelta.operations.drop_feature import drop_feature
from adelta.operations.generate_manifest import generate_manifest
from adelta.operations.history import history
from adelta.operations.restore import restore
from adelta.operations.upgrade_protocol import upgrade_protocol
from adelta.operations.vacuum import vacuum
from adelta.spark.delta.argument_types import check_clone, check_session, check_type
from adelta.spark.delta.cloning import CloneWish, clone_to
from adelta.spark.delta.optimize_builder import DeltaOptimizeBuilder
from adelta.spark.delta.table_builder import DeltaColumnBuilder, DeltaTableBuilder
from adelta.spark.exceptions import WrongTypeError, known_as_of, raises_as_spark
from adelta.spark.options.hadoop_conf import storage_options_of
from adelta.spark.options.session_settings import checks_retention
from adelta.spark.rows.merge_builder import DeltaMergeBuilder
from adelta.spark.rows.rows_by_spark import affected, delete_rows, update_rows
from adelta.spark.rows.target import Target, is_table
from adelta.spark.session.registration import choose_side
from adelta.spark.tables.answers import frame
from adelta.spark.tables.converting import convert_in_place
from adelta.spark.translate.not_of_java import NotOfJava
from adelta.spark.translate.types import to_spark_schema
from adelta.spark.translate.zones import moment_in
from adelta.sql import records
from adelta.sql.execute.vacuum import restore_answer
from adelta.sql.records import detail_row, history_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import Column
    from pyspark.sql import types as s

    from adelta.spark.tables.access import TableAccess
    from adelta.spark.tables.creation import CreationMode

__all__ = ["DeltaTable"]


class DeltaTable(NotOfJava):
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
        choose_side(spark)
        target = Target.at(spark, path, storage_options, name)
        self._target = target if alias is None else target.aliased(alias)

    def __repr__(self) -> str:
        return f"<DeltaTable {self._target.name or self._access.path}>"

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
            return cls._of(Target.at(sparkSession, path, options).existing())

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
        return cls._of(Target.named(sparkSession, tableOrViewName))

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
        return is_table(sparkSession, identifier, storage_options)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """A builder of a new table; that there is one already is an error."""
        return cls._builder(sparkSession, "create")

    @classmethod
    def createIfNotExists(
        cls, sparkSession: SparkSession | None = None
    ) -> DeltaTableBuilder[DeltaTable]:
        """A builder of a new table; where there is one, it stays as it is."""
        return cls._builder(sparkSession, "create if not exists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """A builder of a table in place of another one; that there is none is an error."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    def createOrReplace(
        cls, sparkSession: SparkSession | None = None
    ) -> DeltaTableBuilder[DeltaTable]:
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
        df = self._target.rows()
        self._target.shown.add(df)
        return df

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table, whose columns expressions may name as those of `aliasName`."""
        return self._of(self._target.aliased(aliasName))

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
        return self._spark.createDataFrame([detail_row(found, self._target.name)], DETAIL)

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
        return affected(self._spark, delete_rows(self._target, condition))

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
        return affected(self._spark, update_rows(self._target, condition, set))

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
        return DeltaMergeBuilder(self._target, source, condition)._checked()

    def optimize(self) -> DeltaOptimizeBuilder:
        """A builder of what is written anew, for fewer and better arranged files."""
        return DeltaOptimizeBuilder(self._target)

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
        return cls._of(Target.at(sparkSession, location, name=name))

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

    @raises_as_spark
    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table with the rows of the latest version; `target` is its path or name.

        Raises: as `adelta.clone` does.
        """
        return self._clone(target, isShallow, replace, properties)

    @raises_as_spark
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table with the rows of a version.

        Raises: as `adelta.clone` does.
        """
        check_type("version", version, int, "an int")
        return self._clone(target, isShallow, replace, properties, version=version)

    @raises_as_spark
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table with the rows that there were at a time.

        Raises: as `adelta.clone` does.
        """
        check_type("timestamp", timestamp, str, "a string")
        moment = moment_in(timestamp, self._zone)
        return self._clone(target, isShallow, replace, properties, timestamp=moment)

    # --------------------------------------------------------------------------------- inside

    @classmethod
    def _of(cls, target: Target) -> DeltaTable:
        found = cls.__new__(cls)
        found._target = target
        return found

    @classmethod
    def _builder(
        cls, spark: SparkSession | None, mode: CreationMode
    ) -> DeltaTableBuilder[DeltaTable]:
        spark = check_session(spark or SparkSession.getActiveSession())
        return DeltaTableBuilder(spark, cls._of, mode)

    def _clone(
        self,
        target: str,
        shallow: bool,
        replace: bool,
        properties: dict[str, str] | None,
        *,
        version: int | None = None,
        timestamp: datetime | None = None,
    ) -> DeltaTable:
        check_clone(target, shallow, replace, properties)
        wish = CloneWish(shallow, replace, properties, version, timestamp)
        path, name, options = clone_to(self._access, target, wish)
        return self._of(Target.at(self._spark, path, options, name))

    @property
    def _spark(self) -> SparkSession:
        return self._target.spark

    @property
    def _access(self) -> TableAccess:
        return self._target.access

    @property
    def _zone(self) -> str:
        return self._target.zone


HISTORY: s.StructType = to_spark_schema(from_arrow_schema(records.HISTORY))
"""The columns of `DeltaTable.history`."""

DETAIL: s.StructType = to_spark_schema(from_arrow_schema(records.DETAIL))
"""The columns of `DeltaTable.detail`."""
