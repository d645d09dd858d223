"""What `df.write...save()` does in a session of Spark Connect that knows adelta.

The server refuses some modes of writing before a data source is asked, and shows it none of the
session's settings. So the client's writers say all of that by options.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from adelta.spark.native.jvm import WriteState

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

__all__ = ["hook_writers", "plain_remote_save", "remote_formats"]

_MODES = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "errorifexists": "ErrorIfExists",
    "default": "ErrorIfExists",
    "ignore": "Ignore",
}
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
        _plain.append(RemoteWriter.save)
        RemoteWriter.save = wraps(RemoteWriter.save)(_save)  # type: ignore[method-assign]


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
    told = self._write
    source = format if format is not None else told.source
    mode = mode if mode is not None else told.mode
    how = _MODES.get((mode or "error").lower())
    if save is None or source is None or source.lower() not in formats or how is None:
        _plain[0](self, path, format, mode, partitionBy, **options)
        return
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    state = WriteState(
        source,
        how,
        {key: value for key, value in told.options.items() if value is not None},
        list(told.partitioning_cols) or None,
        list(told.clustering_cols) or None,
        told.num_buckets > 0 or bool(told.sort_cols),
    )
    if path is not None:
        state.options["path"] = path
    save(RemoteFrame(self._df, self._spark), state)
