"""Delta tables by name in a session of Spark Connect: `spark.table`, `saveAsTable` and their like.

The server knows names of tables, and adelta's data source by path alone; so the client asks where a
table is, and reads and writes it there. What is no Delta table goes to Spark as it is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError, TableNotFoundError
from adelta.spark.connect.catalog import hook_catalog
from adelta.spark.connect.formats import formats_of, place_of
from adelta.spark.connect.merges import hook_merges
from adelta.spark.exceptions import name_taken, raises_as_spark
from adelta.spark.options.hadoop_conf import prefixed, storage_of_session
from adelta.spark.options.read_write import absolute_uri, with_session_storage
from adelta.spark.options.replacing import keeps_rows, replaces_matching
from adelta.spark.options.session_settings import default_format, read_settings
from adelta.spark.options.writer import WriteState
from adelta.spark.rows.by_position import by_position
from adelta.spark.rows.expressions import sql_text
from adelta.spark.rows.saving import save
from adelta.spark.tables.access import load
from adelta.spark.tables.names import add_name, drop_name, without_views
from adelta.spark.translate.identifiers import identifier_parts, path_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from adelta.operations.write_transactions import DefinedBy


__all__ = ["hook_tables", "state_of"]

_MODES = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "errorifexists": "ErrorIfExists",
    "default": "ErrorIfExists",
    "ignore": "Ignore",
}
_OF_THE_CATALOG = ("location", "comment")
"""Properties of tables that say where one is and what it is, as Spark's catalogs take them."""
_DEFINE = ("create", "replace", "createOrReplace")
_REPLACES = {"overwriteSchema": "true", "partitionOverwriteMode": "static"}


def hook_tables() -> None:
    """Let readers and writers know the tables of a session's formats."""
    from pyspark.sql.connect import readwriter  # which needs more packages

    reader: Any = readwriter.DataFrameReader
    if hasattr(reader.table, "__wrapped__"):
        return
    reader.load = _loading(reader.load)
    reader.table = _reading(reader.table)
    writer: Any = readwriter.DataFrameWriter
    writer.saveAsTable = _saving(writer.saveAsTable)
    writer.insertInto = _inserting(writer.insertInto)
    _hook_second_writer(readwriter.DataFrameWriterV2)
    hook_catalog()
    hook_merges()


def state_of(writer: Any, source: str, mode: str | None) -> WriteState | None:
    """What a writer of Spark Connect's was told; None of a mode that there is not."""
    told = writer._write
    how = _MODES.get((mode or told.mode or "error").lower())
    if how is None:
        return None
    return WriteState(
        source,
        how,
        {key: value for key, value in told.options.items() if value is not None},
        list(told.partitioning_cols) or None,
        list(told.clustering_cols) or None,
        told.num_buckets > 0 or bool(told.sort_cols),
    )


def _without_views(spark: SparkSession, name: str) -> tuple[str, str | None]:
    """A name that is none of a table's here, as no temporary view has it; where its table is."""
    known = without_views(spark, name)
    return known, None if known == name else place_of(spark, known)


def _loading(plain: Any) -> Any:
    @wraps(plain)
    def load(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> Any:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        spark = self._client
        ours = (self._format or "").lower() in formats_of(spark)
        if not ours or not (path is None or isinstance(path, str)):
            return plain(self, path)
        # The user's own reader keeps the options that it was given.
        given = self._options if path is None else {**self._options, "path": path}
        told = type(self)(spark).format(self._format)
        told.options(**with_session_storage(spark.conf.getAll, given))
        told.options(**read_settings(spark, {key.lower() for key in given}))
        told._schema = self._schema
        return plain(told)

    return load


def _reading(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def table(self: Any, tableName: str) -> Any:

        spark = self._client
        place = place_of(spark, tableName)
        if place is None:
            return plain(self, tableName)
        options = {**prefixed(storage_of_session(spark, place)), **self._options}
        rows = load(spark, {**options, "path": place})
        return rows if path_named(tableName) else rows.alias(identifier_parts(tableName)[-1])

    return table


def _saving(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def save_as_table(
        self: Any,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        spark, source = self._spark, self._write.source
        formats = formats_of(spark)
        if source is None and formats and default_format(spark) in formats:
            source = default_format(spark)
        state = state_of(self, source or "", None)
        ours = state is not None and (source is None or source.lower() in formats)
        place = place_of(spark, name) if ours else None
        if ours and place is None:
            name, place = _without_views(spark, name)
        if state is None or (place is None and (source is None or not ours)):
            plain(self, name)
        elif place is not None:
            _save_into(_frame(self), name, place, state)
        else:
            _save_as_new(_frame(self), name, state)

    return save_as_table


def _save_into(df: DataFrame, name: str, place: str, state: WriteState, **besides: Any) -> None:
    """Write to the table of a name, which is there.

    Raises:
        TableAlreadyExistsError: it is to be a new one.
    """
    if path_named(name) is None:  # else whether it is there shows when it is written
        if state.mode == "ErrorIfExists":
            raise name_taken(
                f"table {name} already exists: choose the mode append, overwrite or ignore, or "
                "another name"
            )
        if state.mode == "Ignore":
            return
    state.options["path"] = place
    save(df, state, **besides)


def _save_as_new(df: DataFrame, name: str, state: WriteState, **besides: Any) -> None:
    """Write a table, and give it a name that nobody has."""
    spark = df.sparkSession
    if (location := state.options.get("path")) is not None:
        save(df, state, **besides)
        add_name(spark, name, df.schema, location=location)
        return
    made = add_name(spark, name, df.schema)
    try:
        state.options["path"] = str(made.location)
        save(df, state, **besides)
    except BaseException:
        drop_name(spark, name)
        raise


def _inserting(plain: Any) -> Any:
    @wraps(plain)
    @raises_as_spark
    def insert_into(self: Any, tableName: str, overwrite: bool | None = None) -> None:
        spark = self._spark
        place = place_of(spark, tableName)
        mode = None if overwrite is None else "overwrite" if overwrite else "append"
        state = state_of(self, "delta", mode or self._write.mode or "append")
        if place is None or state is None:
            plain(self, tableName, overwrite)
            return
        if replaces_matching(state.options):
            state.options["path"] = place
            save(_frame(self), state, by_order=True)
            return
        df, table = _frame(self), spark.read.table(tableName).schema
        columns = table.names
        if len(df.columns) != len(columns):
            raise InvalidOptionError(
                f"{tableName} has {len(columns)} columns, and the rows have {len(df.columns)}: "
                "rows are inserted by the order of columns"
            )
        state.options["path"] = place
        save(by_position(df, columns, table), state)

    return insert_into


# ------------------------------------------------------------------------------------- writeTo


def _hook_second_writer(writer: Any) -> None:
    """Hook what `df.writeTo` gives."""

    def hooked(name: str, does: Callable[..., None]) -> None:
        plain = getattr(writer, name)

        @wraps(plain)
        @raises_as_spark
        def method(self: Any, *arguments: Any) -> None:
            spark, table = self._spark, self._table_name
            formats = formats_of(spark)
            place = place_of(spark, table)
            told = self._write.provider or (default_format(spark) if formats else "")
            ours = place is not None or told.lower() in formats
            if place is None and ours and name in _DEFINE:
                self._table_name, place = _without_views(spark, table)
            if not ours:
                plain(self, *arguments)
            else:
                does(self, place, *arguments)

        setattr(writer, name, method)

    hooked("append", _append)
    hooked("overwrite", _overwrite)
    hooked("overwritePartitions", _overwrite_partitions)
    hooked("create", _create)
    hooked("replace", _replace)
    hooked("createOrReplace", _create_or_replace)


def _append(writer: Any, place: str | None) -> None:
    _change(writer, place, "Append", {})


def _overwrite(writer: Any, place: str | None, condition: Any) -> None:
    df = _frame(writer)
    text = (
        condition
        if isinstance(condition, str)
        else sql_text(writer._spark, "condition", condition, lambda: df)
    )
    everything = text.lower() == "true" and not replaces_matching(writer._write.options)
    which = {"partitionOverwriteMode": "static"} if everything else {"replaceWhere": text}
    _change(writer, place, "Overwrite", which)  # whatever mode the session has


def _overwrite_partitions(writer: Any, place: str | None) -> None:
    _change(writer, place, "Overwrite", {"partitionOverwriteMode": "dynamic"})


def _create(writer: Any, place: str | None) -> None:
    _define(writer, place, "ErrorIfExists", "CREATE TABLE AS SELECT")


def _create_or_replace(writer: Any, place: str | None) -> None:
    _define(writer, place, "Overwrite", "CREATE OR REPLACE TABLE AS SELECT")


def _replace(writer: Any, place: str | None) -> None:
    if place is None:
        raise TableNotFoundError(
            f"table {writer._table_name} cannot be replaced as it does not exist: use "
            "createOrReplace to create it"
        )
    _define(writer, place, "Overwrite", "REPLACE TABLE AS SELECT")


def _change(writer: Any, place: str | None, mode: str, options: dict[str, str]) -> None:
    """Write to a table that is there.

    Raises:
        TableNotFoundError: there is none.
    """
    if place is None:
        raise TableNotFoundError(
            f"there is no table {writer._table_name} to write to: create it first, by create()"
        )
    state = _second_state(writer, mode)
    state.options.update(options, path=place)
    save(_frame(writer), state)


def _define(writer: Any, place: str | None, mode: str, defined_by: DefinedBy) -> None:
    """Create a table, or replace the one that is there."""
    state = _second_state(writer, mode)
    if replaces_matching(state.options):
        raise keeps_rows()
    properties = dict(writer._write.table_properties)
    location, comment = (properties.pop(key, None) for key in _OF_THE_CATALOG)
    if properties:
        state.options["tableProperties"] = json.dumps(properties)
    besides: dict[str, Any] = {"defined_by": defined_by, "description": comment}
    if place is None:
        if location is not None:
            state.options["path"] = location
        _save_as_new(_frame(writer), writer._table_name, state, **besides)
        return
    if location is not None and absolute_uri(location) != absolute_uri(place):
        raise InvalidOptionError(
            f"the location of the table {writer._table_name} is {place!r}, not {location!r}: leave "
            "the location out"
        )
    if mode == "Overwrite":
        state.options.update(_REPLACES)  # and its layout, which need not be named
        state = replace(state, partition_by=state.partition_by or [])
    _save_into(_frame(writer), writer._table_name, place, state, **besides)


def _second_state(writer: Any, mode: str) -> WriteState:
    told = writer._write
    df = _frame(writer)
    partitions = [_column(each, df) for each in told.partitioning_columns]
    return WriteState(
        "delta",
        mode,
        {key: value for key, value in told.options.items() if value is not None},
        partitions or None,
        list(told.clustering_columns) or None,
        buckets=False,
    )


def _column(given: Any, df: DataFrame) -> str:
    """The name of a column to partition by.

    Raises:
        InvalidOptionError: it is another expression.
    """
    sent = given if isinstance(given, str) else given._expr
    text = getattr(sent, "_unparsed_identifier", None)
    text = sql_text(df.sparkSession, "column", given, lambda: df) if text is None else text
    try:
        return ".".join(identifier_parts(text))
    except InvalidOptionError as error:
        raise InvalidOptionError(
            f"a Delta table is partitioned by columns, and {given} is an expression: store it in a "
            "column of its own, or cluster by columns (clusterBy)"
        ) from error


def _frame(writer: Any) -> DataFrame:
    """The rows that a writer was made of."""
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame

    found: Any = RemoteFrame(writer._df, writer._spark)
    return found  # type: ignore[no-any-return]
