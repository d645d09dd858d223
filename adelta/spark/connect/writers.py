"""What `df.write...save()` does in a session of Spark Connect that knows adelta.

The server refuses some modes of writing before a data source is asked, and shows it none of the
session's settings. So the client's writers say all of that by options. Tables by name are
`adelta.spark.connect.tables`.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from adelta.spark.connect.tables import hook_tables, state_of
from adelta.spark.sql_hook import has_sql_hook
from adelta.spark.translate.errors_in_text import recognise_remote_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

    from adelta.spark.classic.jvm import WriteState

__all__ = ["hook_writers", "plain_remote_save", "remote_formats"]

_sessions: WeakKeyDictionary[Any, tuple[frozenset[str], Any]] = WeakKeyDictionary()
_plain: list[Any] = []  # Spark's own method, once there is a session of Connect


def hook_writers(
    spark: SparkSession,
    formats: frozenset[str],
    save: Callable[[DataFrame, WriteState], None],
) -> None:
    """Let writers of a session of Connect `save`, where they are told one of `formats`."""
    from pyspark.sql.connect.readwriter import DataFrameWriter as RemoteWriter  # which needs grpc

    _sessions[spark] = formats, save
    if not _plain:
        recognise_remote_errors()
        _plain.append(RemoteWriter.save)
        RemoteWriter.save = wraps(RemoteWriter.save)(_save)  # type: ignore[method-assign]
        from adelta.spark.connect.view_targets import hook_views  # which registers sessions

        hook_views(remote_formats)
        _hook_new_sessions()

        def saves(df: DataFrame, state: WriteState, **more: Any) -> None:
            _sessions[df.sparkSession][1](df, state, **more)

        hook_tables(remote_formats, saves)


def _hook_new_sessions() -> None:
    """Let sessions that are made of one know what it knows, as those of a driver do."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    from adelta.spark.session.registration import register  # which imports this module

    session: Any = RemoteSession
    for name in ("cloneSession", "newSession"):
        plain = getattr(session, name, None)
        if plain is None:
            continue

        @wraps(plain)
        def made(self: Any, *given: Any, plain: Callable[..., Any] = plain, **named: Any) -> Any:
            found = plain(self, *given, **named)
            if self in _sessions:
                register(found, as_delta="delta" in remote_formats(self), sql=has_sql_hook(self))
            return found

        setattr(session, name, made)


def remote_formats(spark: SparkSession) -> frozenset[str]:
    """The formats that writers of a session save; none where it was not given to `hook_writers`."""
    formats, _ = _sessions.get(spark, (frozenset(), None))
    return formats


def plain_remote_save(writer: DataFrameWriter, path: str) -> None:
    """Let Spark itself save."""
    _plain[0](writer, path)


def _save(
    self: Any,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame

    formats, save = _sessions.get(self._spark, (frozenset(), None))
    source = format if format is not None else self._write.source
    state = None if source is None else state_of(self, source, mode)
    if save is None or source is None or source.lower() not in formats or state is None:
        _plain[0](self, path, format, mode, partitionBy, **options)
        return
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    state = state_of(self, source, mode)
    assert state is not None
    if path is not None:
        state.options["path"] = path
    save(RemoteFrame(self._df, self._spark), state)
