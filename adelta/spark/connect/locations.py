"""Changes of a table's entry through Spark Connect, which Spark carries out unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidStatementError, TableNotFoundError
from adelta.spark.classic.names.definitions import check_alike
from adelta.spark.exceptions import known_as_of
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.tables.sql_names import named_table
from adelta.sql.grammar.reader import Reader
from adelta.sync._portal import call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_entry"]


def check_entry(spark: SparkSession, text: str, zone: str, reason: Exception) -> None:
    """See that a statement changes the entry of a Delta table to what the table is.

    An entry may get another name, or go to a table that is alike. Columns and properties are the
    table's own, of which Spark would change the entry alone: the statement is refused for `reason`,
    why adelta does not know it.

    Raises:
        TableNotFoundError: there is no Delta table to go to.
        SchemaMismatchError: it has other columns, or is partitioned by others.
    """
    reader = Reader(text, zone)
    try:
        reader.expect("ALTER", "TABLE")
        name = reader.table()
    except InvalidStatementError:
        return
    if reader.accept("RENAME", "TO"):
        return
    try:
        known = named_table(spark, name)
    except TableNotFoundError:
        return  # which is none of Delta's
    try:
        reader.expect("SET", "LOCATION")
        place = absolute_uri(reader.string())
        reader.end()
    except InvalidStatementError:
        raise reason from None
    here = str(known.path)
    with known_as_of("set location"):
        call(
            check_alike,
            (here, storage_of_session(spark, here)),
            (place, storage_of_session(spark, place)),
        )
