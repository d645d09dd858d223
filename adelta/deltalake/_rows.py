"""What reads rows, and the operations that take little to say."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import NoneType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import errors as e
from adelta import sync
from adelta._clock import monotonic
from adelta.deltalake._arrow import answered, with_views
from adelta.deltalake._raw import check_columns, moment_of, stream_of
from adelta.deltalake._sql import spark_sql
from adelta.deltalake._util import check_count, check_flag, check_text
from adelta.deltalake.exceptions import DeltaError, DeltaProtocolError, raises_as_deltalake
from adelta.deltalake.writer.options import with_data_files
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.schema.arrow import from_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import NoReturn

    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake.writer.properties import WriterProperties

__all__ = [
    "compact_logs",
    "deleted",
    "expression_of",
    "load_cdf",
    "no_table_provider",
    "on_latest",
    "read",
    "with_zone",
]


def with_zone(moment: datetime) -> datetime:
    """The moment, in UTC where it names no zone."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def expression_of(filters: Any) -> Any:
    """Filters as an expression of pyarrow's; None where there are none."""
    from pyarrow.parquet import filters_to_expression

    return None if filters is None else filters_to_expression(filters)


@raises_as_deltalake
def read(
    table: RawDeltaTable, columns: Sequence[str] | None, filters: Any, partitions: Any
) -> pa.Table:
    """The rows for which the filters are true, and that are in files of the partitions."""
    from adelta.deltalake._filters import where_of

    snapshot = table.snapshot
    where = where_of(partitions, snapshot.delta_schema)
    if isinstance(columns, str):
        raise ValueError(f"Expected a list or a dict for 'columns', got {type(columns)} instead.")
    if _is_computed(columns, snapshot.schema.names):
        import pyarrow.dataset as ds  # noqa: TID251 - it computes the columns

        files: Any = ds.dataset(read(table, None, filters, partitions))
        computed: pa.Table = files.to_table(columns=columns)
        return computed
    _check_found(snapshot.schema, columns or ())
    if filters is None:
        return snapshot.scan(columns, where).to_arrow()
    expression = expression_of(filters)
    if where is None and isinstance(filters, list | tuple):
        where = _weakened(filters, snapshot.schema)
    try:
        scan = snapshot.scan(None, where)
    except e.InvalidExpressionError:
        if partitions is not None:
            raise
        scan = snapshot.scan()  # pyarrow decides on the filters
    found = []
    for batch in scan.batches():
        kept = pa.Table.from_batches([batch]).filter(expression)
        found.append(kept if columns is None else kept.select(list(columns)))
    if not found:
        empty = scan.schema.empty_table().filter(expression)
        return empty if columns is None else empty.select(list(columns))
    return pa.concat_tables(found)


def _is_computed(columns: Any, names: Sequence[str]) -> bool:
    """Whether columns are computed by expressions, or are fields of structs (``st.x``)."""
    if isinstance(columns, dict):
        return True
    return any("." in name and name not in names for name in columns or ())


def _check_found(schema: pa.Schema, names: Iterable[str]) -> None:
    """Refuse a column that is not there, as pyarrow does.

    Raises:
        pyarrow.ArrowInvalid: one is not.
    """
    for name in names:
        if name not in schema.names:
            raise pa.ArrowInvalid(f"No match for FieldRef.Name({name}) in {schema}")


def _weakened(filters: Any, schema: pa.Schema) -> list[list[Any]] | None:
    """What leaves out files by tuples: those that mean to adelta what they mean to pyarrow.

    pyarrow's ``not in`` takes nulls, and ``in`` takes them where they are listed.
    """
    groups = filters if isinstance(filters[0], list) else [filters]
    if isinstance(filters[0], list) and all(isinstance(each, str) for each in filters[0]):
        groups = [filters]
    _check_found(schema, [condition[0] for group in groups for condition in group])
    kept = [[tuple(each) for each in group if _is_plain(*each)] for group in groups]
    return kept if all(kept) else None


def _is_plain(_: str, operator: str, value: Any) -> bool:
    if operator == "in":
        return isinstance(value, list | tuple | set) and len(value) > 0 and None not in value
    return operator != "not in" and not isinstance(value, list | tuple | set | NoneType)


@raises_as_deltalake
def load_cdf(
    table: RawDeltaTable,
    starting_version: int | None,
    ending_version: int | None,
    starting_timestamp: str | None,
    ending_timestamp: str | None,
    columns: list[str] | None,
    predicate: str | None,
    allow_out_of_range: bool,
) -> pa.RecordBatchReader:
    """The changed rows of a range.

    Raises:
        DeltaError: the range is not there, the feed was not enabled for all of it, or the
            columns or the predicate do not fit.
        ValueError: a timestamp is none.
        TypeError: an argument is of another type.
        OverflowError: a version is negative.
    """
    check_flag(allow_out_of_range)
    check_count(starting_version)
    check_count(ending_version)
    given = (predicate, starting_timestamp, ending_timestamp)
    check_text(*(text for text in given if text is not None))
    newest = table.handle.snapshot()
    latest = newest.version
    if starting_version is None and starting_timestamp is None:
        raise DeltaError("External error: No starting version or timestamp provided for CDC")
    since: Any = starting_version or 0
    if starting_timestamp is not None:
        since = moment_of(starting_timestamp)
    _check_order(since, ending_version)
    until = latest if ending_version is None else min(ending_version, latest)
    if ending_version is None and ending_timestamp is not None:
        until = _last_until(table, moment_of(ending_timestamp), newest)
    extra = ("_change_type", "_commit_version", "_commit_timestamp")
    check_columns((*newest.schema.names, *extra), columns)
    own = None if columns is None else [name for name in columns if name not in extra]
    if predicate is not None:
        own = None
    empty = _changes_schema(newest.schema, own)
    if isinstance(since, int) and since > latest:
        if not allow_out_of_range:
            raise DeltaError(
                f"External error: Invalid table version: {since}; the latest one is {latest}"
            )
        return answered(_answer_schema(table, empty, columns), [])
    if isinstance(since, datetime) and since > newest.timestamp:
        if not allow_out_of_range:
            raise DeltaError(
                f"The timestamp {since} is greater than latest commit timestamp, {newest.timestamp}"
            )
        return answered(_answer_schema(table, empty, columns), [])
    if isinstance(since, datetime):
        since = _first_since(table, since)
    if until < since:
        return answered(_answer_schema(table, empty, columns), [])
    try:
        batches = sync.changes(table.handle, since, until, columns=own)
        first = next(iter(batches), None)
    except e.ChangesNotAvailableError as error:
        found_version = re.search(r"at version (\d+)", str(error))
        version = found_version[1] if found_version else since
        raise DeltaError(
            f"External error: Reading a table version: {version} that does not have change "
            f"data enabled: {error}"
        ) from error
    except e.VersionNotFoundError:
        if not allow_out_of_range:
            raise
        return answered(_answer_schema(table, empty, columns), [])
    schema = empty if first is None else first.schema

    def rows() -> Iterator[pa.RecordBatch]:
        if first is not None:
            yield first
            yield from batches

    kept: Iterable[pa.RecordBatch] = rows()
    if predicate is not None:
        node = bind_predicate(parse_expression(spark_sql(predicate)), from_arrow_schema(schema))
        kept = (batch.filter(filter_mask(node, batch)) for batch in kept)
    return answered(_answer_schema(table, schema, columns), stream_of(kept, table))


def _check_order(since: Any, until: int | None) -> None:
    if isinstance(since, int) and until is not None and since > until:
        raise DeltaError(
            f"Invalid version. Start version {since} is greater than end version {until}"
        )


def _first_since(table: RawDeltaTable, moment: datetime) -> int:
    """The first version that is not older than a moment."""
    newer = [entry.version for entry in sync.history(table.handle, since=moment)]
    return min(newer) if newer else table.version()


def _last_until(table: RawDeltaTable, moment: datetime, newest: sync.Snapshot) -> int:
    """The last version that is not newer than a moment; -1 where all are."""
    if moment >= newest.timestamp:
        return newest.version
    try:
        return table.handle.snapshot(timestamp=moment).version
    except e.TimestampOutOfRangeError:
        return -1


def _changes_schema(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    own = list(schema) if columns is None else [schema.field(name) for name in columns]
    return pa.schema(
        [
            *own,
            pa.field("_change_type", pa.string()),
            pa.field("_commit_version", pa.int64()),
            pa.field("_commit_timestamp", pa.timestamp("us", "UTC")),
        ]
    )


def _answer_schema(
    table: RawDeltaTable, schema: pa.Schema, columns: Sequence[str] | None
) -> pa.Schema:
    """What deltalake gives of changes: the partition columns last, in the types of its engine."""
    kinds = {"_commit_version": pa.uint64(), "_commit_timestamp": pa.timestamp("ms")}
    if columns is None:
        last = (*table.snapshot.partition_columns, "_change_type", *kinds)
        columns = [*(name for name in schema.names if name not in last), *last]
    fields = [schema.field(name) for name in columns]
    typed = pa.schema([each.with_type(kinds.get(each.name, each.type)) for each in fields])
    return with_views(typed, inside=False)


def no_table_provider() -> NoReturn:
    """Say what to hand to DataFusion instead.

    Raises:
        DeltaProtocolError: always.
    """
    raise DeltaProtocolError(
        "adelta has no table provider of DataFusion's own; register the table's rows instead: "
        "ctx.register_dataset(name, dt.to_pyarrow_dataset()), or ctx.from_arrow(dt.scan())"
    )


@raises_as_deltalake
def deleted(
    table: RawDeltaTable,
    predicate: str | None,
    properties: WriterProperties | None,
    options: DeltalakeCommit,
) -> dict[str, Any]:
    """What a delete did."""
    began = monotonic()
    handle = table.committing(with_data_files(options, properties, table))
    done = sync.delete(handle, None if predicate is None else spark_sql(predicate))
    table.update_incremental()
    found: dict[str, Any] = {
        "num_added_files": done.num_added_files,
        "num_removed_files": done.num_removed_files,
        "num_deleted_rows": done.num_deleted_rows,
        "num_copied_rows": done.num_copied_rows,
        "execution_time_ms": done.execution_time_ms or round((monotonic() - began) * 1000),
        "scan_time_ms": done.scan_time_ms,
        "rewrite_time_ms": done.rewrite_time_ms,
    }
    if done.num_deleted_rows is None:
        del found["num_deleted_rows"]
    return found


@raises_as_deltalake
def on_latest(table: RawDeltaTable, operation: str) -> None:
    """Carry out an operation of `adelta.sync` that takes the table alone."""
    getattr(sync, operation)(table.handle)


@raises_as_deltalake
def compact_logs(table: RawDeltaTable, start: int, end: int) -> None:
    """Write a log compaction.

    Raises:
        DeltaError: the range is empty, or is not there.
        OverflowError: a version is negative.
    """
    check_count(start)
    check_count(end)
    if end <= start:
        raise DeltaError(
            f"Generic DeltaTable error: Invalid version range: end_version {end} must be greater "
            f"than start_version {start}"
        )
    sync.compact_log(table.handle, start_version=start, end_version=end)
