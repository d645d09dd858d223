"""What `spark.readStream` and `df.writeStream` do in a session that knows adelta.

A stream is always adelta's own data source. What a session has and a data source is not told comes
as options: the session's time zone, what its settings say of writes, and the columns to partition
or cluster a new table by, which Spark takes and then forgets. Other formats are left to Spark.
"""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark.sql.utils import is_remote

from adelta.spark.native.jvm import FORMAT
from adelta.spark.session_settings import session_zone, with_default_properties, write_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    FormatsOf: TypeAlias = Callable[[SparkSession], frozenset[str]]
    Prepare: TypeAlias = Callable[[SparkSession], None]

__all__ = ["hook_streams"]

_OPTIONS, _LAYOUT = "_adelta_options", "_adelta_layout"
_FOLDED_ZONE = "timezone"


def hook_streams(formats_of: FormatsOf, prepare: Prepare) -> None:
    """Do so from now on, for the formats, in lower case, that `formats_of` says of a session.

    `prepare` is given the session before a stream is made.
    """
    reader: Any = DataStreamReader
    writer: Any = DataStreamWriter
    if is_remote():
        from pyspark.sql.connect.streaming import readwriter  # which needs more packages

        reader, writer = readwriter.DataStreamReader, readwriter.DataStreamWriter
    if not hasattr(reader.load, "__wrapped__"):
        _hook_reader(reader, formats_of, prepare)
        _hook_writer(writer, formats_of, prepare)


def _session(of: Any) -> SparkSession:
    """The session of a reader or writer, of classic Spark or of Connect."""
    names = ("_spark", "_session", "_client")
    found: SparkSession = next(vars(of)[name] for name in names if name in vars(of))
    return found


def _tell_zone(of: Any) -> None:
    """Hand over the session's time zone, unless another one was asked for."""
    asked = vars(of)[_OPTIONS]
    if _FOLDED_ZONE not in asked:
        of.option("timeZone", session_zone(_session(of)))
        asked.discard(_FOLDED_ZONE)


def _tell_settings(of: Any) -> None:
    """Hand over what the session says of all writes, and its properties for new tables."""
    asked, spark = vars(of)[_OPTIONS], _session(of)
    told = write_settings(spark, asked)
    if "tableproperties" not in asked:
        found = with_default_properties({}, spark)
        said = {key: value for key, value in found.items() if key.lower() not in asked}
        told |= {"tableProperties": json.dumps(said)} if said else {}
    for option, value in told.items():
        of.option(option, value)
    asked -= {option.lower() for option in told}


def _remember_options(of: Any) -> None:
    """Let readers or writers know which options they were given, in lower case."""
    plain_option, plain_options = of.option, of.options

    @wraps(plain_option)
    def option(self: Any, key: str, value: Any) -> Any:
        vars(self).setdefault(_OPTIONS, set()).add(key.lower())
        return plain_option(self, key, value)

    @wraps(plain_options)
    def options(self: Any, **options: Any) -> Any:
        vars(self).setdefault(_OPTIONS, set()).update(key.lower() for key in options)
        return plain_options(self, **options)

    of.option, of.options = option, options


def _hook_reader(reader: Any, formats_of: FormatsOf, prepare: Prepare) -> None:
    plain_format, plain_load = reader.format, reader.load
    _remember_options(reader)

    @wraps(plain_format)
    def format(self: Any, source: str) -> Any:
        self._adelta_reads = source.lower() in formats_of(_session(self))
        return plain_format(self, FORMAT if self._adelta_reads else source)

    @wraps(plain_load)
    def load(
        self: Any, path: Any = None, format: Any = None, schema: Any = None, **options: Any
    ) -> Any:
        if format is not None:
            self.format(format)
        self.options(**options)
        if getattr(self, "_adelta_reads", False):
            prepare(_session(self))
            _tell_zone(self)
        return plain_load(self, path, None, schema)

    reader.format, reader.load = format, load


def _hook_writer(writer: Any, formats_of: FormatsOf, prepare: Prepare) -> None:
    plain_format, plain_start = writer.format, writer.start
    _remember_options(writer)

    @wraps(plain_format)
    def format(self: Any, source: str) -> Any:
        self._adelta_writes = source.lower() in formats_of(_session(self))
        return plain_format(self, FORMAT if self._adelta_writes else source)

    def remembering(name: str) -> Callable[..., Any]:
        plain = getattr(writer, name)

        @wraps(plain)
        def by(self: Any, *cols: Any) -> Any:
            named = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
            vars(self).setdefault(_LAYOUT, {})[name] = list(named)
            return plain(self, *cols)

        return by

    @wraps(plain_start)
    def start(
        self: Any,
        path: Any = None,
        format: Any = None,
        outputMode: Any = None,
        partitionBy: Any = None,
        queryName: Any = None,
        **options: Any,
    ) -> StreamingQuery:
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        self.options(**options)
        if getattr(self, "_adelta_writes", False):
            prepare(_session(self))
            _tell_settings(self)
            for name, columns in vars(self).get(_LAYOUT, {}).items():
                self.option(name, json.dumps(columns))
        found: StreamingQuery = plain_start(self, path, None, outputMode, None, queryName)
        return found

    writer.format, writer.start = format, start
    writer.partitionBy, writer.clusterBy = remembering("partitionBy"), remembering("clusterBy")
