"""RawDeltaTable: a table at a version, as far as it is read; the `_table` of a `DeltaTable`."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import orjson
import pyarrow as pa

from adelta import errors as e
from adelta import sync
from adelta._dataclasses import dataclass
from adelta.deltalake._add_actions import add_actions, physical_name
from adelta.deltalake._arrow import answered, with_views
from adelta.deltalake._filters import where_of
from adelta.deltalake._history import history_entry
from adelta.deltalake._raw_changes import RawChanges
from adelta.deltalake._sql import spark_sql
from adelta.deltalake._storage_options import known_options, open_table
from adelta.deltalake._types import Schema
from adelta.deltalake._util import check_count, check_flag, check_text, check_texts
from adelta.deltalake.exceptions import (
    DeltaError,
    TableNotFoundError,
    as_deltalake_errors,
    raises_as_deltalake,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.table_properties import TableProperties
from adelta.log.newest_first import NewestFirst
from adelta.snapshot import Snapshot as AsyncSnapshot
from adelta.storage.providers import provider_of
from adelta.sync._handle import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta import CommitOptions

__all__ = ["RawDeltaTable", "RawDeltaTableMetaData", "check_columns", "moment_of", "stream_of"]


@dataclass(frozen=True)
class RawDeltaTableMetaData:
    """The table's metadata; `created_time` in milliseconds since the Unix epoch."""

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]


def moment_of(text: str) -> datetime:
    """The moment of an RFC 3339 text, which says its zone.

    Raises:
        ValueError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"Failed to parse datetime string: {error}") from None
    if found.tzinfo is None:
        raise ValueError(
            f"Failed to parse datetime string: premature end of input: {text!r} names no time zone"
        )
    return found.astimezone(UTC)


class RawDeltaTable(RawChanges):
    """A table at a version. It reads what it is asked for, when it is asked for it."""

    @raises_as_deltalake
    def __init__(
        self,
        table_uri: str,
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> None:
        if version is not None:
            version = _counted(version)
        if not table_uri:
            raise TableNotFoundError("Local path '' does not exist or you don't have access!")
        if storage_options is not None:
            check_texts(storage_options)
        self._given_uri = table_uri
        self._options = known_options(storage_options)
        try:
            self.handle = sync.open_table(table_uri, self._options)
        except e.InvalidOptionError as error:
            if "://" in table_uri and "scheme" in str(error):
                raise e.TableNotFoundError(f"Unknown scheme: {error}") from error
            raise
        self.snapshot = self._newest_first(version)

    def _newest_first(self, version: int | None = None) -> sync.Snapshot:
        """A version, whose files are in the order in which deltalake has them."""
        live = self.handle.snapshot(version=version)._async()
        state = NewestFirst.of(live._state)
        ordered = AsyncSnapshot(state, live._roots, live._configuration)
        recipe = Recipe.of("snapshot", version=live.version)
        return sync.Snapshot._wrap(ordered, self.handle, recipe)

    def __reduce__(self) -> tuple[Any, ...]:
        return RawDeltaTable, (self._given_uri, self.version(), self._options)

    @staticmethod
    @raises_as_deltalake
    def is_deltatable(table_uri: str, storage_options: dict[str, str] | None = None) -> bool:
        """Whether there is a table, be it one that adelta can read or not."""
        try:
            provider_of(table_uri)
        except e.InvalidOptionError:
            return False
        with open_table(table_uri or ".", storage_options) as handle:
            try:
                handle.snapshot()
            except e.TableNotFoundError:
                return False
            except (e.UnsupportedFeatureError, e.InvalidTableError):
                return True
        return True

    # -------------------------------------------------------------------------------- what it is

    def committing(self, options: CommitOptions) -> sync.Table:
        """The handle whose commits are as `options` say."""
        return self.handle.committing(options)

    @property
    def root(self) -> str:
        """The table's address, without a slash at its end."""
        return self.handle.uri.rstrip("/")

    def table_uri(self) -> str:
        """The table's address."""
        return self.root + "/"

    def version(self) -> int:
        """The version that it is at."""
        return self.snapshot.version

    @property
    def schema(self) -> Schema:
        """The table's columns."""
        return Schema._of(self.snapshot.delta_schema)

    def metadata(self) -> RawDeltaTableMetaData:
        """The table's metadata."""
        found = self.snapshot.metadata
        return RawDeltaTableMetaData(
            id=found.id,
            name=found.name,
            description=found.description,
            partition_columns=list(found.partition_columns),
            created_time=found.created_time,
            configuration=dict(found.configuration),
        )

    def protocol_versions(self) -> tuple[int, int, list[str] | None, list[str] | None]:
        """The versions for readers and writers, and the features of writers and readers."""
        found = self.snapshot.protocol
        return (
            found.min_reader_version,
            found.min_writer_version,
            None if found.writer_features is None else sorted(found.writer_features),
            None if found.reader_features is None else sorted(found.reader_features),
        )

    def table_config(self) -> tuple[bool, int, bool]:
        """What deprecated arguments would have said, by default."""
        return False, 8, False

    @raises_as_deltalake
    def get_latest_version(self) -> int:
        """The newest version of the table."""
        return self.handle.snapshot().version

    def get_num_index_cols(self) -> int:
        """How many columns have statistics."""
        return int(self.snapshot.properties.get("delta.dataSkippingNumIndexedCols", 32))

    def get_stats_columns(self) -> list[str] | None:
        """The columns that have statistics, where they are named."""
        named = self.snapshot.properties.get("delta.dataSkippingStatsColumns")
        return None if named is None else [name.strip() for name in named.split(",")]

    @raises_as_deltalake
    def transaction_version(self, app_id: str) -> int | None:
        """How far an application has got."""
        check_text(app_id)
        return self.snapshot.application_version(app_id)

    # ------------------------------------------------------------------------------- other versions

    @raises_as_deltalake
    def load_version(self, version: int) -> None:
        """Go to a version."""
        latest = self.version()
        try:
            self.snapshot = self._newest_first(_counted(version))
        except e.VersionNotFoundError as error:
            if version <= latest:
                raise
            raise DeltaError(
                "Kernel error: Generic delta kernel error: Requested snapshot version "
                f"{version} is not available: no new commits were found after existing snapshot "
                f"version {latest}"
            ) from error

    @raises_as_deltalake
    def load_with_datetime(self, ds: str) -> None:
        """Go to the version of a moment; to the first or the last one, where there was none."""
        self.load_version(self.version_at(moment_of(ds)))

    def version_at(self, moment: datetime) -> int:
        """The version of a moment: the first one that is kept where none was as early."""
        try:
            return self.handle.snapshot(timestamp=moment).version
        except e.TimestampOutOfRangeError:
            latest = self.handle.snapshot()
            if moment >= latest.timestamp:
                return latest.version
            return sync.history(self.handle)[-1].version

    @raises_as_deltalake
    def update_incremental(self) -> None:
        """Go to the newest version."""
        self.snapshot = self._newest_first()

    @raises_as_deltalake
    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits up to the version, newest first.

        Raises:
            OverflowError: `limit` is negative.
            TypeError: it is no whole number.
        """
        check_count(limit)
        if limit is not None and limit <= 0:
            return []
        version = self.version()
        behind = self.handle.snapshot().version - version
        found = sync.history(self.handle, None if limit is None else limit + max(behind, 0))
        entries = [history_entry(entry) for entry in found if entry.version <= version]
        return entries if limit is None else entries[:limit]

    # -------------------------------------------------------------------------------------- files

    def _files(self, predicate: Any, columns: list[str]) -> pa.Table:
        where = where_of(predicate, self.snapshot.delta_schema)
        return self.snapshot.files(where, columns=columns)

    def paths(self, predicate: Any = None) -> list[str]:
        """The paths of the live files in the table's folder, or their whole addresses."""
        found = self._files(predicate, ["path"]).column("path")
        return [decode_path(str(path)) for path in found.to_pylist()]

    @raises_as_deltalake
    def files(self, file_pruning_predicate: Any = None) -> list[str]:
        """The paths of the live files, relative to the table."""
        return self.paths(file_pruning_predicate)

    @raises_as_deltalake
    def file_uris(self, file_pruning_predicate: Any = None) -> list[str]:
        """The addresses of the live files: plain paths for those of this machine."""
        return [self._address(path) for path in self.paths(file_pruning_predicate)]

    def _address(self, path: str) -> str:
        address = path if "://" in path or path.startswith("/") else f"{self.root}/{path}"
        if not address.startswith("file://"):
            return address
        root = unquote(urlsplit(self.root).path)
        return f"{root}/{path}" if address == f"{self.root}/{path}" else unquote(address[7:])

    @raises_as_deltalake
    def get_add_file_sizes(self) -> dict[str, int]:
        """How many bytes each live file has, by its path."""
        found = self._files(None, ["path", "size"])
        paths = [decode_path(str(path)) for path in found.column("path").to_pylist()]
        sizes: list[Any] = found.column("size").to_pylist()
        return dict(zip(paths, sizes, strict=True))

    @raises_as_deltalake
    def get_active_partitions(self, file_pruning_predicate: Any = None) -> list[dict[str, Any]]:
        """The partitions of live files, by column; a table without partitions has none.

        Raises:
            ValueError: a condition is on a column that the table has not.
        """
        fields = self.snapshot.delta_schema
        if isinstance(file_pruning_predicate, list):
            asked = [field for group in file_pruning_predicate for field, _, _ in group]
            if unknown := [name for name in asked if name not in fields.names]:
                raise ValueError(
                    f"Filters include columns that are not in table schema: {json.dumps(unknown)}"
                )
        names = [(name, fields.field(name)) for name in self.snapshot.partition_columns]
        seen: dict[tuple[str | None, ...], dict[str, Any]] = {}
        found = self._files(file_pruning_predicate, ["partition_values"])
        for values in found.column("partition_values").to_pylist() if names else ():
            texts = dict(values or ())
            one = {name: texts.get(physical_name(f)) for name, f in names if f is not None}
            seen.setdefault(tuple(one.values()), one)
        return list(seen.values())

    @raises_as_deltalake
    def get_add_actions(self, flatten: bool) -> pa.Table:
        """One row a live file."""
        check_flag(flatten)
        snapshot = self.snapshot
        columns = ["path", "size", "modification_time", "stats", "partition_values"]
        return add_actions(
            snapshot.files(columns=columns),
            snapshot.delta_schema,
            snapshot.partition_columns,
            TableProperties(snapshot.properties),
            flatten=flatten,
        )

    @raises_as_deltalake
    def deletion_vectors(self) -> pa.RecordBatchReader:
        """Of each file that has a deletion vector, which of its rows are kept."""
        addresses, kept = [], []
        deleted = self.snapshot.deleted_rows()
        rows = self._num_rows()
        for path, places in deleted.items():
            gone: set[Any] = set(places.to_pylist())
            total = rows.get(path) or (max(gone) + 1 if gone else 0)
            addresses.append(f"{self.root}/{decode_path(path)}")
            kept.append([place not in gone for place in range(total)])
        item = pa.field("item", pa.bool_(), nullable=False)
        schema = pa.schema(
            [
                pa.field("filepath", pa.large_string(), nullable=False),
                pa.field("selection_vector", pa.list_(item), nullable=False),
            ]
        )
        table = pa.Table.from_arrays(
            [pa.array(addresses, pa.large_string()), pa.array(kept, pa.list_(item))], schema=schema
        )
        return table.to_reader()

    def _num_rows(self) -> dict[str, int | None]:
        files = self.snapshot.files(columns=["path", "stats"])
        stats = [orjson.loads(text) if text else {} for text in files.column("stats").to_pylist()]
        counts = [one.get("numRecords") for one in stats]
        paths: list[Any] = files.column("path").to_pylist()
        return dict(zip(paths, counts, strict=True))

    # --------------------------------------------------------------------------------------- rows

    @raises_as_deltalake
    def scan(
        self, columns: list[str] | None = None, predicate: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows for which the predicate is true, as a stream."""
        if predicate is not None:
            check_text(predicate)
        where = None if predicate is None else spark_sql(predicate)
        check_columns(self.snapshot.delta_schema.names, columns)
        scan = self.snapshot.scan(columns, where)
        return answered(with_views(scan.schema), stream_of(scan.batches(), self))


def check_columns(names: Sequence[str], columns: Any) -> None:
    """Refuse columns that are not there.

    Raises:
        TypeError: they are no list.
        DeltaError: one is not there, or is there twice.
    """
    if isinstance(columns, str):
        raise TypeError("Can't extract `str` to `Vec`")
    for place, name in enumerate(columns or ()):
        if name not in names:
            valid = ", ".join(names)
            raise DeltaError(f"Schema error: No field named {name}.\nValid fields are {valid}.")
        if name in columns[:place]:
            raise DeltaError(
                "Error during planning: Projections require unique expression names: "
                f"{name!r} is named twice"
            )


def stream_of(batches: Any, keeps: object) -> Iterator[pa.RecordBatch]:
    """The batches, whose errors are deltalake's; `keeps` stays open as long as they last."""
    with as_deltalake_errors():
        try:
            yield from batches
        finally:
            with suppress(AttributeError):
                batches.close()
            del keeps


def _counted(version: Any) -> int:
    """A version.

    Raises:
        OverflowError: it is negative.
        TypeError: it is no whole number.
    """
    if not isinstance(version, int):
        raise TypeError(f"'{type(version).__name__}' object cannot be interpreted as an integer")
    if version < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return int(version)
