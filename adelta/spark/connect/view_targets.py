"""Which table a temporary view is of that a statement changes, through Spark Connect.

The server does not say what a view reads. The client notes of which DataFrame it has made a view,
under a word that the view's plan holds, and goes by that while the server's plan has this word.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from adelta._chance import new_uuid
from adelta.errors import TableNotFoundError
from adelta.spark.connect.formats import formats_of
from adelta.spark.exceptions import with_condition
from adelta.spark.options.hadoop_conf import prefixed, storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.sql_hook import plain_sql
from adelta.spark.tables.names import find_table, named_table
from adelta.spark.translate.identifiers import quoted
from adelta.sql.statements import Delete, Insert, InsertReplacing, Merge, TableName, Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["frame_of_view", "hook_views", "table_to_change"]

_TRAVELS = ("versionasof", "timestampasof")
_OF_THE_SESSION = ("path", "timezone", "distributedplanningfiles", "sessionstorage")
_VERBS: dict[type[Any], str] = {
    Delete: "DELETE",
    Insert: "INSERT",
    InsertReplacing: "INSERT",
    Merge: "MERGE",
    Update: "UPDATE",
}
_noted: WeakKeyDictionary[Any, dict[str, tuple[str, DataFrame]]] = WeakKeyDictionary()


def hook_views() -> None:
    """Let DataFrames of Connect note of which of them views are made, where they are of a table."""
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame  # which needs grpc

    frame: Any = RemoteFrame
    for name in ("createTempView", "createOrReplaceTempView"):
        plain = getattr(frame, name)

        @wraps(plain)
        def create(self: Any, name: str, plain: Callable[..., None] = plain) -> None:
            if getattr(_source(self), "_format", None) not in formats_of(self.sparkSession):
                plain(self, name)
                return
            word = f"adelta_{new_uuid().hex}"
            plain(self.alias(word), name)
            _noted.setdefault(self.sparkSession, {})[name.lower()] = word, self

        setattr(frame, name, create)


def frame_of_view(spark: SparkSession, name: str) -> DataFrame | None:
    """The DataFrame that a temporary view was made of here; `name` is in lower case."""
    return _noted.get(spark, {}).get(name, (None, None))[1]


def table_to_change(spark: SparkSession, statement: Any) -> TableName:
    """The table of a statement, with the path where it is; one that changes rows may name a view.

    Raises:
        TableNotFoundError: the session knows no Delta table of that name, or the view is not one
            of all columns and rows of the latest version of a table.
    """
    name, verb = statement.table, _VERBS.get(type(statement))
    try:
        return named_table(spark, name)
    except TableNotFoundError:
        if verb is None or name.path is not None or len(name.parts) != 1:
            raise
        known = find_table(spark, quoted(name.parts))
        if known is None or known.provider is not None or known.location is not None:
            raise
        word, loaded = _noted.get(spark, {}).get(name.parts[0].lower(), (None, None))
        options = {} if loaded is None else _options(loaded)
        of_table = word is not None and "path" in options and _reads(spark, name, word)
        if not of_table and verb == "INSERT":  # which Spark takes for views of other formats
            raise
    if not of_table:
        raise _refused(
            "DELTA_UNSUPPORTED_SOURCE",
            f"{verb} changes a table through a temporary view of all its columns and rows, which "
            f"{name.parts[0]} is not: name the table",
        )
    if any(key in options for key in _TRAVELS):
        raise _refused(
            "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
            f"{verb} changes the latest version of a table, and {name.parts[0]} is a view of an "
            "earlier one: name the table",
        )
    return TableName(name.parts, absolute_uri(options["path"]))


def _source(frame: Any) -> Any:
    """What a DataFrame is the plan of, which a name may have been given to."""
    plan = frame._plan
    while hasattr(plan, "_alias") and plan._child is not None:
        plan = plan._child
    return plan


def _options(frame: Any) -> dict[str, str]:
    """What the rows were loaded with; nothing where that is a part, or a way of its own.

    What the session says of stores, with which the table is changed, too, is no way of its own.
    """
    given = {key.lower(): value for key, value in _source(frame)._options.items()}
    storage = prefixed(storage_of_session(frame.sparkSession, given.get("path", "")))
    of_session = {key.lower(): value for key, value in storage.items()}
    given = {key: value for key, value in given.items() if of_session.get(key) != value}
    known = {*_OF_THE_SESSION, *_TRAVELS}
    return given if given.keys() <= known else {}


def _reads(spark: SparkSession, name: TableName, word: str) -> bool:
    """Whether a view has all rows and columns of what a word was noted for."""
    rows: Any = plain_sql(spark, f"SELECT * FROM {quoted(name.parts)}")
    analyzed = rows._explain_string(extended=True).partition("== Analyzed Logical Plan ==")[2]
    above, found, _ = analyzed.partition(f"SubqueryAlias {word}\n")
    nodes = [line.strip("+- :") for line in above.strip().splitlines()[1:-1]]
    begin = ("SubqueryAlias ", "View ", "Project ")
    return bool(found) and all(
        node.startswith(begin) and (node[0] != "P" or " AS " not in node) for node in nodes
    )


def _refused(condition: str, message: str) -> TableNotFoundError:
    error = TableNotFoundError(message)
    with_condition(error, condition)
    return error
