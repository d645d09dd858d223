"""What `spark.readStream` and `df.writeStream` do in a session that knows adelta.

A stream is always adelta's own data source. What a session has and a data source is not told comes
as options: the session's time zone, what its settings say of writes, and the columns to partition
or cluster a new table by, which Spark takes and then forgets. A table's name becomes its place,
since that is all that a source in Python can be given. Other formats are left to Spark.
"""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark.sql.utils import to_str

from adelta.errors import InvalidOptionError
from adelta.spark.exceptions import known_as_of, raises_as_spark
from adelta.spark.options.path_travel import names_version
from adelta.spark.options.read_write import absolute_uri, with_session_storage
from adelta.spark.options.session_settings import (
    default_format,
    read_settings,
    with_default_properties,
    write_settings,
)
from adelta.spark.side import side_of
from adelta.spark.tables.creation import TableWish, create_as_wished
from adelta.spark.tables.names import place_of
from adelta.spark.translate.identifiers import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from adelta.spark.side import SparkSide

__all__ = ["hook_streams"]

_OPTIONS, _LAYOUT = "_adelta_options", "_adelta_layout"
_FEED, _OF_BATCHES = "readchangefeed", "distributedplanningfiles"
_BY_EVENT_TIME, _EVENT_TIME = "witheventtimeorder", "eventtimecolumn"
_ORDERS = "spark.databricks.delta.withEventTimeOrder.enabled"
_PROPERTY, _OF_STORE = "delta.", "option."
_ACCEPTS = "spark.databricks.delta.streaming."
_ACCEPTED = ("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange")
_CHECKPOINT, _CHECKPOINTS = "checkpointlocation", "spark.sql.streaming.checkpointLocation"
_BOTH, _BOTH_OF = "allowSourceColumnRenameAndDrop", _ACCEPTED[:2]


def hook_streams(side: SparkSide) -> None:
    """Hook the readers and writers of a side, for the formats of each session."""
    reader, writer = side.stream_classes()
    if not hasattr(reader.load, "__wrapped__"):
        _hook_reader(reader)
        _hook_writer(writer)


def _formats_of(spark: SparkSession) -> frozenset[str]:
    return side_of(spark).formats(spark)


def _prepare(spark: SparkSession) -> None:
    """Make Spark find the data source in the session that a stream is of."""
    side = side_of(spark)
    side.ensure_registered(spark)
    side.activate(spark)


def _session(of: Any) -> SparkSession:
    """The session of a reader or writer, of classic Spark or of Connect."""
    names = ("_spark", "_session", "_client")
    found: SparkSession = next(vars(of)[name] for name in names if name in vars(of))
    return found


def _tell_read(of: Any) -> None:
    """Hand over what the session's settings say of reads, and of feeds, as streams all are."""
    asked = vars(of).setdefault(_OPTIONS, {})
    _hand_over(of, read_settings(_session(of), {*asked, _FEED, _OF_BATCHES}))


def _tell_storage(of: Any, path: Any) -> dict[str, str]:
    """Hand over how the session opens the store, unless the options say that; all options."""
    asked = vars(of).setdefault(_OPTIONS, {})
    place = asked.get("path") if path is None else path
    given = {key: str(to_str(value)) for key, value in asked.items() if value is not None}
    told = with_session_storage(_session(of).conf.getAll, {**given, "path": str(place or "")})
    for option, value in told.items():
        if option.startswith(_OF_STORE):
            of.option(option, value)
            asked.pop(option, None)
    return told


def _awaits_watermark(of: Any) -> bool:
    """Whether the rows of a stream are wanted by event time, of a column that is not yet known."""
    asked = vars(of).setdefault(_OPTIONS, {})
    if _EVENT_TIME in asked:
        return False
    said = asked.get(_BY_EVENT_TIME)
    if said is None:
        said = _session(of).conf.get(_ORDERS, None)
    return str(said).lower() == "true"


def _ordered_by_watermark(of: Any, path: Any, schema: Any, plain_load: Any) -> Any:
    """A stream whose `withWatermark` says the column by whose times it is to be ordered."""
    asked = dict(vars(of)[_OPTIONS])
    rows = plain_load(of, path, None, schema)

    @wraps(rows.withWatermark)
    def with_watermark(eventTime: str, delayThreshold: str) -> Any:
        again = type(of)(_session(of)).format(FORMAT)
        again.options(**{**asked, _BY_EVENT_TIME: "true", _EVENT_TIME: eventTime})
        return again.load(path, schema=schema).withWatermark(eventTime, delayThreshold)

    rows.withWatermark = with_watermark
    return rows


def _tell_accepted(of: Any) -> None:
    """Hand over which changes of schemas the session's settings accept."""
    asked, settings = vars(of).setdefault(_OPTIONS, {}), _session(of).conf
    if {"schematrackinglocation", "schemalocation"}.isdisjoint(asked):
        return
    both = settings.get(f"{_ACCEPTS}{_BOTH}", None)
    for name in _ACCEPTED:
        said = settings.get(f"{_ACCEPTS}{name}", None) or (both if name in _BOTH_OF else None)
        if name.lower() not in asked and said is not None and said.lower() == "always":
            of.option(name, "always")
            del asked[name.lower()]


def _tell_settings(of: Any) -> dict[str, str]:
    """Hand over what the session says of all writes, and its properties for new tables; these."""
    asked, spark = vars(of).setdefault(_OPTIONS, {}), _session(of)
    settings = dict(spark.conf.getAll)
    told = write_settings(spark, settings, asked)
    if "tableproperties" not in asked:
        found = with_default_properties({}, settings)
        said = {key: value for key, value in found.items() if key.lower() not in asked}
        told |= {"tableProperties": json.dumps(said)} if said else {}
    _hand_over(of, told)
    return told


def _hand_over(of: Any, told: Mapping[str, str]) -> None:
    """Give options that are not remembered as the user's own."""
    for option, value in told.items():
        of.option(option, value)
        del vars(of)[_OPTIONS][option.lower()]


def _remember_options(of: Any) -> None:
    """Let readers or writers know the options that they were given, in lower case."""
    plain_option, plain_options = of.option, of.options

    @wraps(plain_option)
    def option(self: Any, key: str, value: Any) -> Any:
        vars(self).setdefault(_OPTIONS, {})[key.lower()] = value
        return plain_option(self, key, value)

    @wraps(plain_options)
    def options(self: Any, **options: Any) -> Any:
        given = {key.lower(): value for key, value in options.items()}
        vars(self).setdefault(_OPTIONS, {}).update(given)
        return plain_options(self, **options)

    of.option, of.options = option, options


def _hook_reader(reader: Any) -> None:
    plain_format, plain_load, plain_table = reader.format, reader.load, reader.table
    _remember_options(reader)

    @wraps(plain_format)
    def format(self: Any, source: str) -> Any:
        self._adelta_reads = source.lower() in _formats_of(_session(self))
        return plain_format(self, FORMAT if self._adelta_reads else source)

    @wraps(plain_load)
    @raises_as_spark
    def load(
        self: Any, path: Any = None, format: Any = None, schema: Any = None, **options: Any
    ) -> Any:
        if format is not None:
            self.format(format)
        self.options(**options)
        if getattr(self, "_adelta_reads", False):
            _prepare(_session(self))
            _tell_read(self)
            _tell_accepted(self)
            if names_version(_tell_storage(self, path)):
                with known_as_of("travel"):
                    raise InvalidOptionError(
                        "a stream reads a table from a version on, not as it was at one: leave the "
                        "version out of the path, and say startingVersion or startingTimestamp"
                    )
            if _awaits_watermark(self):
                return _ordered_by_watermark(self, path, schema, plain_load)
            return side_of(_session(self)).stream_read(plain_load(self, path, None, schema))
        return plain_load(self, path, None, schema)

    @wraps(plain_table)
    @raises_as_spark
    def table(self: Any, tableName: Any) -> Any:
        spark = _session(self)
        if not isinstance(tableName, str) or not (formats := _formats_of(spark)):
            return plain_table(self, tableName)
        place = place_of(spark, tableName, formats)
        if place is None:
            return plain_table(self, tableName)
        return self.load(place, FORMAT)

    reader.format, reader.load, reader.table = format, load, table


def _hook_writer(writer: Any) -> None:
    plain_format, plain_start, plain_to_table = writer.format, writer.start, writer.toTable
    plain_mode, plain_foreach_batch = writer.outputMode, writer.foreachBatch
    plain_layouts = {name: getattr(writer, name) for name in ("partitionBy", "clusterBy")}
    _remember_options(writer)

    @wraps(plain_format)
    def format(self: Any, source: str) -> Any:
        self._adelta_format = source.lower()
        self._adelta_writes = source.lower() in _formats_of(_session(self))
        return plain_format(self, FORMAT if self._adelta_writes else source)

    @wraps(plain_mode)
    def output_mode(self: Any, outputMode: str) -> Any:
        found = plain_mode(self, outputMode)
        self._adelta_mode = outputMode
        return found

    def going_elsewhere(name: str) -> Callable[..., Any]:
        """One's own function takes the rows: Spark then forgets the format that was said before."""
        plain = getattr(writer, name)

        @wraps(plain)
        def to_function(self: Any, func: Any) -> Any:
            if name == "foreachBatch" and _formats_of(spark := _session(self)):
                func = side_of(spark).for_batches(spark, func)
            found = plain(self, func)
            self._adelta_format, self._adelta_writes = name.lower(), False
            return found

        return to_function

    def remembering(name: str) -> Callable[..., Any]:
        """Spark is told at the start: it lets no function take rows that are to be partitioned."""

        @wraps(plain_layouts[name])
        def by(self: Any, *cols: Any) -> Any:
            named = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
            vars(self).setdefault(_LAYOUT, {})[name] = list(named)
            return self

        return by

    def lay_out(self: Any) -> None:
        for name, columns in vars(self).get(_LAYOUT, {}).items():
            plain_layouts[name](self, *columns)

    @wraps(plain_start)
    @raises_as_spark
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
            _check_mode(self, outputMode)
            _prepare(_session(self))
            told = _tell_settings(self) | _tell_storage(self, path)
            for name, columns in vars(self).get(_LAYOUT, {}).items():
                told[name] = json.dumps(columns)
                self.option(name, told[name])
            write = _micro_batch_writer(self, told, outputMode)
            if write is None:
                plain_format(self, FORMAT)
                lay_out(self)
            else:
                plain_foreach_batch(self, write)
                path = None
        else:
            lay_out(self)
        found: StreamingQuery = plain_start(self, path, None, outputMode, None, queryName)
        return found

    @wraps(plain_to_table)
    @raises_as_spark
    def to_table(
        self: Any,
        tableName: str,
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
        place = _sink_of(self, tableName, _formats_of(_session(self)), outputMode)
        if place is None:
            lay_out(self)
            return plain_to_table(  # type: ignore[no-any-return]
                self, tableName, None, outputMode, None, queryName
            )
        given = vars(self).get(_OPTIONS, {}).get("path")
        if given is None:
            return start(self, place, FORMAT, outputMode, None, queryName)
        if absolute_uri(given) != absolute_uri(place):
            raise InvalidOptionError(
                f"the table {tableName} is at {place}, not at {given}: leave the path out"
            )
        return start(self, None, FORMAT, outputMode, None, queryName)

    writer.format, writer.start, writer.toTable = format, start, to_table
    writer.outputMode = output_mode
    for name in ("foreach", "foreachBatch"):
        setattr(writer, name, going_elsewhere(name))
    writer.partitionBy, writer.clusterBy = remembering("partitionBy"), remembering("clusterBy")


def _micro_batch_writer(
    writer: Any, options: Mapping[str, str], mode: Any
) -> Callable[[Any, int], None] | None:
    """What writes each micro-batch of a writer here; None where Spark's data source does.

    Spark itself refuses a writer without a checkpoint, or with two layouts, of a data source alone.
    """
    spark, asked = _session(writer), vars(writer).get(_OPTIONS, {})
    has_checkpoint = _CHECKPOINT in asked or spark.conf.get(_CHECKPOINTS, None) is not None
    if not has_checkpoint or len(vars(writer).get(_LAYOUT, {})) > 1:
        return None
    mode = getattr(writer, "_adelta_mode", None) if mode is None else mode
    return side_of(spark).micro_batch_writer(
        spark,
        {key.lower(): value for key, value in options.items()},
        overwrite=str(mode).lower() == "complete",
    )


def _check_mode(writer: Any, asked: Any) -> None:
    """Refuse the output modes that a table is not written in."""
    mode = getattr(writer, "_adelta_mode", None) if asked is None else asked
    if str(mode).lower() == "update":
        raise InvalidOptionError(
            "a stream appends rows to a table, or replaces all in the output mode complete, and "
            "does not update: merge the rows in foreachBatch, or choose append or complete",
            reason="output_mode",
        )


def _sink_of(writer: Any, name: Any, formats: frozenset[str], mode: Any = None) -> str | None:
    """Where the Delta table of a name is, which is created if there is none; None of others.

    Raises:
        InvalidOptionError: the writer was told another format than the table's, or an output mode
            that tables are not written in.
        AdeltaError: there can be no such table; see `DeltaTableBuilder.execute`.
    """
    spark = _session(writer)
    if not isinstance(name, str) or not formats:
        return None
    told = getattr(writer, "_adelta_format", None)
    place = place_of(spark, name, formats)
    if place is not None:
        if told is not None and told not in formats:
            raise InvalidOptionError(
                f"{name} is a Delta table, which cannot be written to as {told}: leave the format "
                "out, or choose another name"
            )
        _check_mode(writer, mode)
        return place
    if (default_format(spark) if told is None else told) not in formats:
        return None
    _check_mode(writer, mode)
    given, layout = vars(writer).get(_OPTIONS, {}), vars(writer).get(_LAYOUT, {})
    wish = TableWish(
        name,
        given.get("path"),
        columns=tuple(side_of(spark).stream_schema(writer)),
        partitions=tuple(layout.get("partitionBy", ())),
        clusters=tuple(layout.get("clusterBy", ())),
        properties={key: str(value) for key, value in given.items() if key.startswith(_PROPERTY)},
    )
    location, _ = create_as_wished(spark, wish, "create if not exists")
    return location
