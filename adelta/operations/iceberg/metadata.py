"""The current state of an Iceberg table, from its metadata file and the manifests it leads to.

pyiceberg parses them; adelta fetches them, all manifests at once.
"""

from __future__ import annotations

import gzip
import io
import re
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    InvalidUseError,
    ObjectNotFoundError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["IcebergFile", "IcebergTable", "read_iceberg_table"]

R = TypeVar("R")

_FOLDER = "metadata/"
_HINT = "metadata/version-hint.text"
_GZIP = b"\x1f\x8b"
_NO_SNAPSHOT = -1
_HINTED = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class IcebergFile:
    """A live data file.

    Attributes:
        path: below the table's root.
        size: in bytes.
        num_rows: how many rows it has.
        spec: the id of the partition spec that it was written by.
        partition: its values of that spec's fields, in their order.
        null_counts, nan_counts: how many of its values are null, or NaN, by the field's id.
        lower, upper: bounds in Iceberg's binary form, by the field's id.
    """

    path: str
    size: int
    num_rows: int
    spec: int
    partition: tuple[Any, ...]
    null_counts: dict[int, int]
    nan_counts: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """A table as its current snapshot has it; `metadata` is pyiceberg's ``TableMetadata``."""

    metadata: Any
    files: tuple[IcebergFile, ...]


async def read_iceberg_table(store: ObjectStore, metadata: str | None) -> IcebergTable:
    """The table in `store`, as the file `metadata` below its root says; None asks its hint.

    Raises:
        TableNotFoundError: there is no such table.
        InvalidOptionError: only a catalog knows which metadata are the current ones.
        InvalidTableError: metadata or a manifest is damaged, or a file lies outside of the root.
        UnsupportedFeatureError: the table has what cannot be converted.
        InvalidUseError: pyiceberg is not installed.
        StorageError: the store refused or failed.
    """
    _check_installed()
    path, text = await _current_metadata(store, metadata)
    parsed = await in_thread(_guarded, path, lambda: _parsed(text))
    snapshot = parsed.current_snapshot()
    if snapshot is None:
        _check_empty(path, parsed)
        return IcebergTable(parsed, ())
    roots = (str(parsed.location), store.uri)
    listing = _below(str(snapshot.manifest_list), roots)
    data = await _named(store, listing)
    manifests = await in_thread(_guarded, listing, lambda: _manifests(data))
    _refuse_deletes(store.uri, manifests)

    async def read(manifest: Any) -> list[IcebergFile]:
        at = _below(str(manifest.manifest_path), roots)
        content = await _named(store, at)
        return await in_thread(_guarded, at, lambda: _files(manifest, content, roots))

    found = await map_concurrent(read, manifests, limit=store.concurrency)
    files = tuple(file for files in found for file in files)
    await in_thread(_check_partitions, path, parsed, files)
    await in_thread(_check_once, store.uri, files)
    return IcebergTable(parsed, files)


async def _current_metadata(store: ObjectStore, metadata: str | None) -> tuple[str, bytes]:
    """The path of the current metadata, and what is there.

    Raises:
        TableNotFoundError: there is nothing.
    """
    paths = (metadata,) if metadata else await _hinted(store)
    missing: ObjectNotFoundError | None = None
    for path in paths:
        try:
            return path, await store.get(path)
        except ObjectNotFoundError as error:
            missing = error
    raise TableNotFoundError(f"{store.uri} has no Iceberg metadata {paths[0]}") from missing


async def _named(store: ObjectStore, path: str) -> bytes:
    """What is at a path that the metadata name.

    Raises:
        InvalidTableError: nothing is.
    """
    try:
        return await store.get(path)
    except ObjectNotFoundError as error:
        raise InvalidTableError(
            f"{store.uri} lacks {path}, which its Iceberg metadata name; look whether these are "
            "the current metadata"
        ) from error


async def _hinted(store: ObjectStore) -> tuple[str, ...]:
    """The metadata that a table without a catalog says are current: plain, or by gzip."""
    try:
        version = (await store.get(_HINT)).decode(errors="replace").strip()
    except ObjectNotFoundError as error:
        raise InvalidOptionError(
            f"{store.uri} does not say which of its Iceberg metadata are current (there is no "
            f"{_HINT}): its catalog knows. Pass their file, such as "
            "metadata='metadata/00003-....metadata.json'"
        ) from error
    if not _HINTED.fullmatch(version):
        raise InvalidTableError(f"{store.uri}: {_HINT} holds {version[:50]!r}, which is no version")
    names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json")
    return tuple(_FOLDER + name for name in names)


def _check_installed() -> None:
    try:
        import pyiceberg  # noqa: F401
    except ImportError as error:
        raise InvalidUseError(
            "converting an Iceberg table needs pyiceberg, which is not installed: "
            "pip install 'adelta[iceberg]'"
        ) from error


def _guarded(path: str, parse: Callable[[], R]) -> R:
    """What `parse` gives; whatever it raises that is not ours says that a file is damaged."""
    try:
        return parse()
    except (InvalidTableError, UnsupportedFeatureError):
        raise
    except Exception as error:
        raise InvalidTableError(
            f"{path} is damaged, or no metadata of Iceberg's: {error}"
        ) from error


def _parsed(text: bytes) -> Any:
    from pyiceberg.table.metadata import TableMetadataUtil

    if text.startswith(_GZIP):
        text = gzip.decompress(text)
    return TableMetadataUtil.parse_raw(text.decode())


def _check_empty(path: str, metadata: Any) -> None:
    """Refuse a table of which it is told only by an unknown number that it has rows."""
    number = metadata.current_snapshot_id
    if number is not None and number != _NO_SNAPSHOT:
        raise InvalidTableError(f"{path} is damaged: it lacks its current snapshot, {number}")


def _check_partitions(path: str, metadata: Any, files: Sequence[IcebergFile]) -> None:
    """Refuse files whose partition values are not told by the specs that they were written by."""
    lengths = {spec.spec_id: len(spec.fields) for spec in metadata.partition_specs}
    for file in files:
        length = lengths.get(file.spec)
        if length is None or len(file.partition) < length:
            raise InvalidTableError(
                f"{path} is damaged: {file.path} was written by the partition spec {file.spec}, "
                "which it lacks, or has more columns than the file has values"
            )


def _check_once(root: str, files: Sequence[IcebergFile]) -> None:
    """Refuse files whose rows Iceberg reads more than once, as a Delta table cannot."""
    times = Counter(file.path for file in files)
    path, most = max(times.items(), key=itemgetter(1), default=("", 1))
    if most > 1:
        raise InvalidTableError(
            f"{root}: its Iceberg manifests name {path} {most} times, so that its rows are read as "
            "often; a Delta table names a file once. Write the rows that are to stay to a new "
            "table, or have an Iceberg writer write them again (rewrite_data_files), and convert "
            "the table then"
        )


def _refuse_deletes(root: str, manifests: Sequence[Any]) -> None:
    for manifest in manifests:
        live = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        if int(manifest.content) != 0 and live:
            raise UnsupportedFeatureError(
                f"{root} has rows that are deleted by files of their own (merge on read); compact "
                "it by an Iceberg writer first (rewrite_data_files), and convert it then"
            )


def _manifests(data: bytes) -> list[Any]:
    from pyiceberg.manifest import read_manifest_list

    return list(read_manifest_list(_file("a manifest list", data)))


def _files(manifest: Any, data: bytes, roots: tuple[str, str]) -> list[IcebergFile]:
    entries = manifest.fetch_manifest_entry(_fetched(data), discard_deleted=True)
    return [_described(entry.data_file, roots) for entry in entries]


def _described(file: Any, roots: tuple[str, str]) -> IcebergFile:
    if int(file.content) != 0:
        raise UnsupportedFeatureError(f"{file.file_path} deletes rows of other files")
    if str(file.file_format.name) != "PARQUET":
        raise UnsupportedFeatureError(
            f"{file.file_path} is {file.file_format.name}, and Delta's files are Parquet; write "
            "the rows to a new table instead"
        )
    record = file.partition
    return IcebergFile(
        path=_below(str(file.file_path), roots),
        size=int(file.file_size_in_bytes),
        num_rows=int(file.record_count),
        spec=int(file.spec_id),
        partition=tuple(record[at] for at in range(len(record))),
        null_counts=dict(file.null_value_counts or {}),
        nan_counts=dict(file.nan_value_counts or {}),
        lower=dict(file.lower_bounds or {}),
        upper=dict(file.upper_bounds or {}),
    )


# ------------------------------------------------------------------------------------------ paths


def _below(address: str, roots: tuple[str, str]) -> str:
    """The path below the table's root of what Iceberg names by its address, which is not encoded.

    Raises:
        InvalidTableError: it lies elsewhere.
    """
    plain = _plain(address)
    for root in roots:
        start = _plain(root).rstrip("/") + "/"
        path = plain.removeprefix(start)
        steps = path.split("/")
        if path != plain and not any(step in ("", ".", "..") for step in steps):
            return path
    raise InvalidTableError(
        f"{address} lies outside of the table at {roots[1]}; a table is converted in place, so "
        "that all of its files have to be below its root"
    )


def _plain(address: str) -> str:
    """An address in one spelling: local paths without a scheme, S3's under ``s3``."""
    scheme, _, rest = address.partition(":")
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return f"s3:{rest}" if scheme in ("s3a", "s3n") else address


def _fetched(data: bytes) -> Any:
    """Pyiceberg's way to files, which leads to one that has been fetched."""
    from pyiceberg.io import FileIO

    class Fetched(FileIO):
        def new_input(self, location: str) -> Any:
            return _file(location, data)

        def new_output(self, location: str) -> Any:
            raise PermissionError(location)

        def delete(self, location: Any) -> None:
            raise PermissionError(str(location))

    return Fetched()


def _file(location: str, data: bytes) -> Any:
    from pyiceberg.io import InputFile

    class File(InputFile):
        def __len__(self) -> int:
            return len(data)

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:
            del seekable
            return io.BytesIO(data)

    return File(location)
