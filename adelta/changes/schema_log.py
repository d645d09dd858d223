"""SchemaLog: by which metadata a stream reads a table, as Delta's own source notes it.

The log is a folder below the location that the stream was told, one for each table that is read
(``_schema_log_<table id>``). A file of it has a number for its name; in it are ``v1`` and, on the
next line, JSON. Either source goes on from what the other has left.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import orjson

from adelta._dataclasses import dataclass
from adelta.errors import (
    AdeltaError,
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidTableError,
    ObjectExistsError,
    ObjectNotFoundError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import StructType
from adelta.kernel.table_configuration import TableConfiguration
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["SchemaLog", "SchemaTracking", "TrackedMetadata"]

_KIND = b"v1"
_NO_PREVIOUS = -1
_NUMBER = re.compile(r"\d+")
_MARK_OF_CHECKPOINT = "metadata"


@dataclass(frozen=True, slots=True)
class SchemaTracking:
    """That a stream keeps a log of schemas, and which changes it goes on after.

    Attributes:
        location: the folder of the log, in the checkpoint of the query.
        source_id: what tells apart sources of one query that read the same table.
        renames: ``always``, or the version whose renamed columns are accepted; None for none.
        drops: the same of dropped columns.
        type_changes: the same of widened types.
        storage_options: open the location.
    """

    location: str
    source_id: str | None = None
    renames: str | None = None
    drops: str | None = None
    type_changes: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class TrackedMetadata:
    """The metadata that a stream reads by, which are those of a version.

    Attributes:
        version: the version.
        configuration: its protocol and metadata, as far as reading needs them.
        source_path: where the query keeps what it knows of the source, in its checkpoint.
        previous: the number of the entry before, where that is not the number before.
    """

    version: int
    configuration: TableConfiguration
    source_path: str
    previous: int | None = None

    @classmethod
    def parse(cls, data: bytes, now: TableConfiguration) -> TrackedMetadata:
        """An entry as a file has it; what earlier versions of Delta left out is as it is `now`.

        Raises:
            UnsupportedFeatureError: it is of another kind.
            InvalidTableError: it is damaged.
            ChangesNotAvailableError: it is of another table.
        """
        kind, _, text = data.partition(b"\n")
        if kind.strip() != _KIND:
            raise UnsupportedFeatureError(
                f"an entry of the log of schemas is of the kind {kind[:20]!r}, and adelta knows v1"
            )
        try:
            raw: dict[str, Any] = orjson.loads(text)
            if raw["tableId"] != now.metadata.id:
                raise ChangesNotAvailableError(
                    f"the log of schemas is of the table with the id {raw['tableId']}, and this "
                    f"one has the id {now.metadata.id}; give the stream another "
                    "schemaTrackingLocation, and a new checkpoint"
                )
            properties, protocol = raw.get("tableConfigurations"), raw.get("protocolJson")
            metadata = Metadata.from_json(
                {
                    "id": now.metadata.id,
                    "schemaString": raw["dataSchemaJson"],
                    "partitionColumns": [
                        column["name"]
                        for column in orjson.loads(raw["partitionSchemaJson"])["fields"]
                    ],
                    "configuration": now.metadata.configuration
                    if properties is None
                    else properties,
                }
            )
            found = now.protocol
            if protocol is not None:
                found = Protocol.from_json(orjson.loads(protocol)["protocol"])
            return cls(
                int(raw["deltaCommitVersion"]),
                TableConfiguration(found, metadata),
                str(raw["sourceMetadataPath"]),
                raw.get("previousMetadataSeqNum"),
            )
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, AdeltaError):
                raise
            raise InvalidTableError(
                f"an entry of the log of schemas is damaged: {error!r}"
            ) from error

    def to_bytes(self) -> bytes:
        """The entry as a file has it."""
        metadata, protocol = self.configuration.metadata, self.configuration.protocol
        columns = StructType(tuple(self.configuration.partition_fields))
        raw: dict[str, Any] = {
            "tableId": metadata.id,
            "deltaCommitVersion": self.version,
            "dataSchemaJson": metadata.schema_string,
            "partitionSchemaJson": schema_to_string(columns),
            "sourceMetadataPath": self.source_path,
            "tableConfigurations": dict(metadata.configuration),
            "protocolJson": orjson.dumps({"protocol": protocol.to_json()}).decode(),
        }
        if self.previous is not None:
            raw["previousMetadataSeqNum"] = self.previous
        return _KIND + b"\n" + orjson.dumps(raw)


@dataclass(slots=True)
class SchemaLog:
    """The entries, of which `current` is the latest; None, with the number -1, before the first."""

    tracking: SchemaTracking
    _store: ObjectStore
    _now: TableConfiguration
    number: int = _NO_PREVIOUS
    current: TrackedMetadata | None = None

    @classmethod
    async def open(cls, tracking: SchemaTracking, now: TableConfiguration) -> SchemaLog:
        """The log of a table whose metadata are so now.

        Raises:
            InvalidOptionError: the location is no address.
            InvalidTableError: an entry is damaged.
            ChangesNotAvailableError: the log is of another table.
            StorageError: the store refused.
        """
        suffix = "" if tracking.source_id is None else f"_{tracking.source_id}"
        folder = f"{tracking.location.rstrip('/')}/_schema_log_{now.metadata.id}{suffix}"
        log = cls(tracking, open_store(folder, tracking.storage_options), now)
        numbers = [_NO_PREVIOUS]
        async with aclosing(log._store.list()) as pages:
            async for page in pages:
                numbers += [int(m.path) for m in page if _NUMBER.fullmatch(m.path)]
        log.number = max(numbers)
        log.current = await log._read(log.number)
        return log

    @property
    def uri(self) -> str:
        """Where it is."""
        return self._store.uri

    async def previous(self) -> TrackedMetadata | None:
        """The entry that the latest one took the place of, if there is one."""
        return await self._read(self._number_before())

    async def add(
        self, version: int, configuration: TableConfiguration, *, replaces: bool = False
    ) -> None:
        """Go on with the metadata of a version; with `replaces`, as if the latest never was.

        Raises:
            InvalidOptionError: another stream writes to this log, or it is in no checkpoint.
            StorageError: the store refused.
        """
        if self.current is None:
            source, before = await _source_path(self.tracking), None
        else:
            source = self.current.source_path
            before = self._number_before() if replaces else None
        entry = TrackedMetadata(version, configuration, source, before)
        if self.current is not None and entry == replace(self.current, previous=before):
            return
        try:
            await self._store.put_if_absent(str(self.number + 1), entry.to_bytes())
        except ObjectExistsError as error:
            raise InvalidOptionError(
                f"another source writes to the log of schemas {self.uri}: give each its own "
                "schemaTrackingLocation, or, in one query, its own streamingSourceTrackingId"
            ) from error
        self.number += 1
        self.current = entry

    async def aclose(self) -> None:
        """Give back its connections."""
        await self._store.aclose()

    def _number_before(self) -> int:
        said = None if self.current is None else self.current.previous
        return self.number - 1 if said is None else said

    async def _read(self, number: int) -> TrackedMetadata | None:
        if number <= _NO_PREVIOUS:
            return None
        try:
            data = await self._store.get(str(number))
        except ObjectNotFoundError:
            return None
        return TrackedMetadata.parse(data, self._now)


async def _source_path(tracking: SchemaTracking) -> str:
    """Where the query keeps what it knows of its first source.

    Raises:
        InvalidOptionError: the location is in no checkpoint.
    """
    folder = tracking.location.rstrip("/")
    while folder and not folder.endswith((":", "/")):
        async with aclosing(open_store(folder, tracking.storage_options)) as store:
            try:
                await store.head(_MARK_OF_CHECKPOINT)
            except ObjectNotFoundError:
                folder = folder.rpartition("/")[0]
                continue
        return f"{folder if ':' in folder else 'file:' + folder}/sources/0"
    raise InvalidOptionError(
        f"schemaTrackingLocation is {tracking.location}, which is not in the checkpoint of a "
        "query: let it be the query's checkpointLocation, or a folder of it"
    )
