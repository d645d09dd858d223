"""Checkpoints of every kind, read by column: file actions only when they are asked for.

A checkpoint is a set of top-level files, classic, multi-part or V2, and perhaps sidecars that these
name. `CheckpointReader.open` reads footers, and of the top-level files only what opening a table
needs; `files` reads the columns asked for, every part at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import (
    InvalidTableError,
    MissingCheckpointPartError,
    ObjectNotFoundError,
)
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import (
    ADD_SCHEMA,
    DELETION_VECTOR,
    REMOVE_SCHEMA,
    decode_path,
)
from adelta.kernel.actions.json import (
    ADD_JSON_NAMES,
    REMOVE_JSON_NAMES,
    VERSION_COLUMN,
    ActionBatch,
    decode_actions,
)
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.actions.sidecar import Sidecar
from adelta.kernel.log_path import LogPath, sidecar_path
from adelta.parquet.reader import ParquetFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.log_segment import CheckpointFiles
    from adelta.storage.object_store import ObjectStore

__all__ = ["CheckpointReader", "FilePart"]

STATS_PARSED = "stats_parsed"
PARTITION_VALUES_PARSED = "partitionValues_parsed"


class FilePart:
    """One file of a checkpoint that may hold file actions: a Parquet object, or decoded JSON."""

    __slots__ = ("_batch", "_file")

    def __init__(self, file: ParquetFile | None, batch: ActionBatch | None = None) -> None:
        self._file = file
        self._batch = batch

    @property
    def stats_parsed_type(self) -> pa.DataType | None:
        """The type of `add.stats_parsed`, where the part has it."""
        return self._extra_type(STATS_PARSED)

    @property
    def partition_values_parsed_type(self) -> pa.DataType | None:
        """The type of `add.partitionValues_parsed`, where the part has it."""
        return self._extra_type(PARTITION_VALUES_PARSED)

    def _extra_type(self, name: str) -> pa.DataType | None:
        if self._file is None or "add" not in self._file.schema.names:
            return None
        add = self._file.schema.field("add").type
        index = add.get_field_index(name) if pa.types.is_struct(add) else -1
        return None if index < 0 else add.field(index).type

    async def adds(self, columns: Sequence[str]) -> pa.Table:
        """The part's live files: the named columns of `ADD_SCHEMA`, absent ones null."""
        if self._batch is not None:
            return self._batch.adds.select(list(columns))
        return await self._read("add", columns, ADD_SCHEMA, ADD_JSON_NAMES)

    async def removes(self) -> pa.Table:
        """The part's tombstones, with the columns of `REMOVE_SCHEMA`."""
        if self._batch is not None:
            return self._batch.removes.drop_columns([VERSION_COLUMN])
        return await self._read("remove", REMOVE_SCHEMA.names, REMOVE_SCHEMA, REMOVE_JSON_NAMES)

    async def extra(self, name: str, leaves: Sequence[tuple[str, ...]]) -> pa.ChunkedArray | None:
        """Leaves of `add.stats_parsed` or `add.partitionValues_parsed`, a row per live file.

        Only the leaves that the part has are there; None where it has none of them.
        """
        file = self._file
        if file is None:
            return None
        wanted = [("add", name, *leaf) for leaf in leaves if file.has_column(("add", name, *leaf))]
        if not wanted:
            return None
        table = await file.read([("add", "path"), *wanted])
        adds = table.column("add")
        live = adds.filter(pc.struct_field(adds, "path").is_valid())
        return pc.struct_field(live, name)

    async def _read(
        self, action: str, columns: Sequence[str], schema: pa.Schema, names: Any
    ) -> pa.Table:
        file = self._file
        target = pa.schema([schema.field(column) for column in columns])
        if file is None or not file.has_column((action, "path")):
            return target.empty_table()
        wanted = list(dict.fromkeys(["path", *columns]))
        present = [c for c in wanted if file.has_column((action, names[c]))]
        groups = [g for g in range(file.num_row_groups) if not _all_null(file, g, (action, "path"))]
        table = await file.read([(action, names[c]) for c in present], row_groups=groups)
        return await in_thread(_flatten, table, action, target, names, file.path)


def _all_null(file: ParquetFile, group: int, leaf: tuple[str, ...]) -> bool:
    found = file.statistics(group, leaf)
    rows = file.metadata.row_group(group).num_rows
    return rows == 0 or (found is not None and found.null_count == rows)


def _flatten(table: pa.Table, action: str, target: pa.Schema, names: Any, source: str) -> pa.Table:
    """The rows of `table` where the action is there, its fields as columns of `target`."""
    actions = table.column(action)
    paths = pc.struct_field(actions, "path")
    if paths.null_count:
        actions = actions.filter(paths.is_valid())
    columns = []
    present = {actions.type.field(i).name for i in range(actions.type.num_fields)}
    for column in target:
        name = names[column.name]
        if name not in present:
            columns.append(pa.nulls(len(actions), column.type))
            continue
        values = pc.struct_field(actions, name)
        try:
            columns.append(_conform(values, column.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidTableError(
                f"{source}: {action}.{name} is {values.type}, where a {column.type} belongs; "
                "the checkpoint is damaged: delete it, and the log is read without it"
            ) from error
    return pa.Table.from_arrays(columns, schema=target)


def _conform(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if values.type.equals(kind):
        return values
    if kind.equals(DELETION_VECTOR):
        if pa.types.is_null(values.type):
            return pa.chunked_array([pa.nulls(len(values), kind)])
        return pa.chunked_array([_struct(chunk, kind) for chunk in values.chunks], kind)
    return values.cast(kind)


def _struct(chunk: pa.StructArray, kind: pa.StructType) -> pa.Array:
    """A struct with the fields of `kind`, by name; nulls where the chunk lacks one."""
    fields = []
    for i in range(kind.num_fields):
        field = kind.field(i)
        at = chunk.type.get_field_index(field.name)
        fields.append(
            pa.nulls(len(chunk), field.type)
            if at < 0
            else pc.struct_field(chunk, [at]).cast(field.type)
        )
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=chunk.is_null())


class CheckpointReader:
    """An opened checkpoint. Holds footers, never file actions."""

    def __init__(
        self,
        store: ObjectStore,
        checkpoint: CheckpointFiles,
        files: list[ParquetFile],
        batch: ActionBatch | None,
        sidecars: tuple[Sidecar, ...],
    ) -> None:
        self._store = store
        self._checkpoint = checkpoint
        self._files = files
        self._batch = batch
        self._sidecars = sidecars
        self._parts: list[FilePart] | None = None

    @property
    def version(self) -> int:
        """The version that the checkpoint holds."""
        return self._checkpoint.version

    @property
    def sidecars(self) -> tuple[Sidecar, ...]:
        """The sidecars that the checkpoint names."""
        return self._sidecars

    @classmethod
    async def open(cls, store: ObjectStore, checkpoint: CheckpointFiles) -> CheckpointReader:
        """Read the footers, and the names of the sidecars where there are any.

        Raises:
            MissingCheckpointPartError: a file of the checkpoint is gone.
            InvalidTableError: a file is damaged.
        """
        (first, *_) = checkpoint.files
        if first.path.endswith(".json"):
            data = await _present(store.get(first.path), first.path)
            batch = await in_thread(decode_actions, data, checkpoint.version, first.path)
            return cls(store, checkpoint, [], batch, batch.sidecars)

        async def open_one(part: LogPath) -> ParquetFile:
            return await _present(ParquetFile.open(store, part.path, size=part.size), part.path)

        files = await map_concurrent(open_one, checkpoint.files, limit=store.concurrency)
        reader = cls(store, checkpoint, files, None, ())
        reader._sidecars = tuple(
            Sidecar.from_json({k: _plain(v) for k, v in row.items()})
            for row in await reader._singletons("sidecar", "path")
        )
        return reader

    async def protocol_and_metadata(self) -> tuple[Protocol | None, Metadata | None]:
        """The checkpoint's protocol and metadata."""
        if self._batch is not None:
            protocols, metadata = self._batch.protocols, self._batch.metadata
            return (
                protocols[-1][1] if protocols else None,
                metadata[-1][1] if metadata else None,
            )
        rows = await self._singletons_of({"protocol": "minReaderVersion", "metaData": "id"})
        protocol = [Protocol.from_json(row) for row in rows["protocol"]]
        metadata_rows = [Metadata.from_json(_metadata(row)) for row in rows["metaData"]]
        return (
            protocol[-1] if protocol else None,
            metadata_rows[-1] if metadata_rows else None,
        )

    async def set_transactions(self) -> list[SetTransaction]:
        """The checkpoint's application transactions."""
        if self._batch is not None:
            return [txn for _, txn in self._batch.set_transactions]
        return [SetTransaction.from_json(row) for row in await self._singletons("txn", "appId")]

    async def domain_metadata(self) -> list[DomainMetadata]:
        """The checkpoint's domains."""
        if self._batch is not None:
            return [domain for _, domain in self._batch.domain_metadata]
        rows = await self._singletons("domainMetadata", "domain")
        return [DomainMetadata.from_json(row) for row in rows]

    async def parts(self) -> list[FilePart]:
        """Every file that may hold file actions: sidecars, opened now, and top-level ones."""
        if self._parts is None:

            async def open_sidecar(sidecar: Sidecar) -> FilePart:
                path = sidecar_path(decode_path(sidecar.path))
                size = sidecar.size_in_bytes or None
                return FilePart(
                    await _present(ParquetFile.open(self._store, path, size=size), path)
                )

            opened = await map_concurrent(
                open_sidecar, self._sidecars, limit=self._store.concurrency
            )
            top = [FilePart(file) for file in self._files]
            if self._batch is not None:
                top = [FilePart(None, self._batch)]
            self._parts = top + opened
        return self._parts

    async def _singletons(self, action: str, required: str) -> list[dict[str, Any]]:
        return (await self._singletons_of({action: required}))[action]

    async def _singletons_of(self, required: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Rows of the named actions over all top-level files, by action."""

        async def read(file: ParquetFile) -> dict[str, list[dict[str, Any]]]:
            present = {a: leaf for a, leaf in required.items() if file.has_column((a, leaf))}
            groups = [
                g
                for g in range(file.num_row_groups)
                if not all(_all_null(file, g, (a, leaf)) for a, leaf in present.items())
            ]
            if not present or not groups:
                return {}
            table = await file.read(list(present), row_groups=groups)
            return await in_thread(_rows, table, present)

        found: dict[str, list[dict[str, Any]]] = {action: [] for action in required}
        for one in await map_concurrent(read, self._files, limit=self._store.concurrency):
            for action, rows in one.items():
                found[action] += rows
        return found


def _rows(table: pa.Table, required: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for action, leaf in required.items():
        column = table.column(action)
        found[action] = column.filter(pc.struct_field(column, leaf).is_valid()).to_pylist()
    return found


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    """A `metaData` row with its Parquet maps, which arrive as pairs, as dictionaries."""
    body = {key: _plain(value) for key, value in row.items()}
    if isinstance(row.get("format"), dict):
        body["format"] = {key: _plain(value) for key, value in row["format"].items()}
    body["partitionColumns"] = row.get("partitionColumns")
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    return value


async def _present(fetch: Any, path: str) -> Any:
    try:
        return await fetch
    except ObjectNotFoundError as error:
        raise MissingCheckpointPartError(
            f"{path}: a file of the checkpoint is gone; restore it, or delete the rest of the "
            "checkpoint so that an earlier one is used"
        ) from error
