"""``ALTER TABLE ... SET LOCATION`` through Spark Connect, which Spark carries out unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidStatementError, TableNotFoundError
from adelta.spark.exceptions import known_as_of
from adelta.spark.hadoop_conf import storage_of_session
from adelta.spark.names.definitions import check_alike
from adelta.spark.options import absolute_uri
from adelta.spark.sql_names import named_table
from adelta.sql.grammar.reader import Reader
from adelta.sync._portal import call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_move"]


def check_move(spark: SparkSession, text: str, zone: str) -> None:
    """See that a statement that moves the entry of a Delta table does so to one that is alike.

    Raises:
        TableNotFoundError: there is no Delta table.
        SchemaMismatchError: it has other columns, or is partitioned by others.
    """
    reader = Reader(text, zone)
    try:
        reader.expect("ALTER", "TABLE")
        name = reader.table()
        reader.expect("SET", "LOCATION")
        place = absolute_uri(reader.string())
        reader.end()
    except InvalidStatementError:
        return
    try:
        known = named_table(spark, name)
    except TableNotFoundError:
        return  # which is none of Delta's
    here = str(known.path)
    with known_as_of("set location"):
        call(
            check_alike,
            (here, storage_of_session(spark, here)),
            (place, storage_of_session(spark, place)),
        )
