"""What `df.write...save()` does in a session of Spark Connect that knows adelta.

The server refuses some modes of writing before a data source is asked, and shows it none of the
session's settings. So the client's writers say all of that by options. Tables by name are
`adelta.spark.connect.tables`.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from adelta.spark.connect.formats import formats_of, know_formats
from adelta.spark.connect.tables import hook_tables, state_of
from adelta.spark.connect.view_targets import hook_views
from adelta.spark.rows.saving import save
from adelta.spark.sql_hook import has_sql_hook
from adelta.spark.translate.errors_in_text import recognise_remote_errors
from adelta.spark.translate.identifiers import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.spark.options.read_write import WriteOptions

__all__ = ["hook_writers", "write_by_source"]

_plain: list[Any] = []  # Spark's own method, once there is a session of Connect


def hook_writers(
    spark: SparkSession, formats: frozenset[str], register: Callable[..., None]
) -> None:
    """Let readers, writers, names and views of a session of Connect know `formats`.

    `register` makes sessions that are made of it know what it knows.
    """
    from pyspark.sql.connect.readwriter import DataFrameWriter as RemoteWriter  # which needs grpc

    know_formats(spark, formats)
    if not _plain:
        recognise_remote_errors()
        _plain.append(RemoteWriter.save)
        RemoteWriter.save = wraps(RemoteWriter.save)(_save)  # type: ignore[method-assign]
        hook_views()
        _hook_new_sessions(register)
        hook_tables()


def _hook_new_sessions(register: Callable[..., None]) -> None:
    """Let sessions that are made of one know what it knows, as those of a driver do."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    session: Any = RemoteSession
    for name in ("cloneSession", "newSession"):
        plain = getattr(session, name, None)
        if plain is None:
            continue

        @wraps(plain)
        def made(self: Any, *given: Any, plain: Callable[..., Any] = plain, **named: Any) -> Any:
            found = plain(self, *given, **named)
            if formats := formats_of(self):
                register(found, as_delta="delta" in formats, sql=has_sql_hook(self))
            return found

        setattr(session, name, made)


def write_by_source(
    df: DataFrame, asked: WriteOptions, options: Mapping[str, str], *, overwrite: bool
) -> None:
    """Write rows by the data source on the server, to which options say all that was asked."""
    said = dict(options)
    if asked.made_of is not None:
        said["madeOf"] = str(asked.made_of)
    if asked.defined_by is not None:
        said["definedBy"] = asked.defined_by
    if asked.description is not None:
        said["description"] = asked.description
    path = said.pop("path", "")
    writer = df.write.format(FORMAT).options(**said)
    _plain[0](writer.mode("overwrite" if overwrite else "append"), path)


def _save(
    self: Any,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame

    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    if format is not None:
        self.format(format)
    source = self._write.source
    state = None if source is None else state_of(self, source, None)
    if state is None or source.lower() not in formats_of(self._spark):
        _plain[0](self, path)
        return
    if path is not None:
        state.options["path"] = path
    save(RemoteFrame(self._df, self._spark), state)
