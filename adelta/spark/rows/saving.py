"""Writes of DataFrames: what a writer of Spark's was told, as one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from adelta.errors import AdeltaError, TableNotFoundError
from adelta.spark.exceptions import as_data_source_says, known_as_of
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.options.replacing import REPLACE_OPTIONS, keeps_rows, replaces_matching
from adelta.spark.options.writer import after_write, write_options
from adelta.spark.rows.own_reads import made_of
from adelta.spark.rows.replacing import replace_rows
from adelta.spark.side import side_of
from adelta.spark.translate.identifiers import quoted
from adelta.sync._portal import call
from adelta.table import latest_state, open_table
from adelta.write.spec import WriteSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from adelta.operations.write_transactions import DefinedBy
    from adelta.spark.options.writer import WriteState

__all__ = ["save"]


def save(
    df: DataFrame,
    state: WriteState,
    *,
    defined_by: DefinedBy | None = None,
    description: str | None = None,
    by_order: bool = False,
) -> None:
    """Write rows as a writer was told, by the session's side.

    `defined_by` and `description` are what statements say of a table besides. Where rows that match
    are replaced, columns stand for those of the table `by_order`, or by their names.

    Raises:
        CommitConflictError: another commit won; it is delta-spark's exception, too.
        AdeltaError: any other, which is one of PySpark's, too.
        AnalysisException: it holds the text of an error that PySpark has no class for.
    """
    spark = df.sparkSession
    side_of(spark).ensure_registered(spark)
    replaces = replaces_matching(state.options)
    try:
        with known_as_of("replace" if replaces else "write"):
            if not replaces:
                _write(df, state, defined_by, description)
            elif defined_by is not None:
                raise keeps_rows()
            else:
                _replace(df, state, by_order=by_order)
    except AdeltaError as error:
        raise as_data_source_says(error) from error.__cause__
    after_write(state, spark)


def _replace(df: DataFrame, state: WriteState, *, by_order: bool) -> None:
    """Write rows in the place of those that match; all of them where there is no table."""
    asked = WriteOptions.parse(write_options(state, df.sparkSession))
    if asked.matching is not None and state.mode == "Overwrite":
        try:
            replace_rows(df, asked, asked.matching, by_order=by_order)
            return
        except TableNotFoundError:
            pass
    elif state.mode == "Append":
        asked.request(overwrite=False)
    known = [option.lower() for option in REPLACE_OPTIONS]
    options = {key: value for key, value in state.options.items() if key.lower() not in known}
    _write(df, replace(state, options=options), None, None)


def _write(
    df: DataFrame, state: WriteState, defined_by: DefinedBy | None, description: str | None
) -> None:
    options = write_options(state, df.sparkSession)
    asked = WriteOptions.parse(options)
    df = rebalanced(df, asked)
    asked = replace(
        asked,
        made_of=made_of(df, asked) if asked.made_of is None else asked.made_of,
        defined_by=defined_by,
        description=description,
    )
    overwrite = state.mode == "Overwrite"
    side_of(df.sparkSession).write(df, asked, options, overwrite=overwrite)


def rebalanced(df: DataFrame, asked: WriteOptions) -> DataFrame:
    """The rows of `df`, arranged as a write with these options is to find them."""
    wanted = asked.data_files.optimize_write
    if wanted is False:
        return df
    partition_by: tuple[str, ...] = asked.partition_by or ()
    if wanted is None or asked.partition_by is None:
        try:
            spec = call(_spec, asked)
        except AdeltaError:  # no table yet, or none that can be opened here: see the writer
            properties = {key.lower(): value for key, value in asked.properties.items()}
            found = properties.get("delta.autooptimize.optimizewrite", "false")
            wanted = wanted or found.lower() == "true"
        else:
            wanted, partition_by = spec.optimize_write, spec.partition_columns
    if not wanted:
        return df
    names = {name.lower(): name for name in df.columns}
    held = [names[name.lower()] for name in partition_by if name.lower() in names]
    return df.hint("rebalance", *(sf.col(quoted((name,))) for name in held))


async def _spec(asked: WriteOptions) -> WriteSpec:
    async with open_table(asked.uri, asked.storage_options) as table:
        state = await latest_state(table)
        return WriteSpec.of(state.configuration, files=asked.data_files)
