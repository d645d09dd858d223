"""The footer of a Parquet object, in one request where a guess at its length suffices.

`fetch_footer` reads the object's last bytes and, only where the footer is longer than the guess,
the rest of the footer in a second request. Guarantees:

* Nothing that the object says makes adelta ask for, or hold, more bytes than the object has.
* Whatever is no Parquet, cut short or encrypted is an error that names the path.
* Bytes of column chunks that came along are kept, so that a small object needs no other request.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread, together
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.parquet.faults import unchanged
from adelta.storage.pin import Pin, pinned

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from adelta.storage.object_store import ObjectStore, SuffixRead

__all__ = [
    "DEFAULT_TAIL",
    "TRAILER",
    "FetchedFooter",
    "check_counts",
    "fetch_footer",
    "footer_bytes",
    "footer_size",
    "footer_within",
    "read_metadata",
]

DEFAULT_TAIL = 64 * 1024

TRAILER = 8
"""Bytes at the end of every file: four of length, four of magic."""
_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"


@dataclass(frozen=True, slots=True)
class FetchedFooter:
    """The bytes of an object's footer, and what came along in front of them.

    `footer` is the thrift metadata with the eight bytes after it. `data` are the bytes of the
    object from `data_start` up to the footer, `front` its first bytes, if they were asked for.
    """

    path: str
    object_size: int
    footer: memoryview
    data_start: int
    data: memoryview
    front: memoryview = field(default_factory=lambda: memoryview(b""))

    def parse(self) -> pq.FileMetaData:
        """The metadata. CPU-heavy for wide files: call it in a worker thread.

        Raises:
            InvalidTableError: the footer is damaged.
        """
        from adelta.parquet.arrow_reader import open_footer

        return open_footer(self.path, self.footer).metadata


async def fetch_footer(
    store: ObjectStore,
    path: str,
    *,
    tail: int = DEFAULT_TAIL,
    head: int = 0,
    pin: Pin | None = None,
) -> FetchedFooter:
    """The footer of the object at `path`, guessed to lie within its last `tail` bytes.

    The first `head` bytes of the object are asked for at the same time. Later reads with `pin` are
    of the same version of the object.

    Raises:
        InvalidTableError: the object is no Parquet, is cut short, is encrypted, or has been
            written again meanwhile.
        ObjectNotFoundError: there is no such object.
    """
    with unchanged(path), pinned(pin or Pin()):
        return await _fetched(store, path, tail, head)


async def _fetched(store: ObjectStore, path: str, tail: int, head: int) -> FetchedFooter:
    if not head:
        return await _footer(store, path, tail)
    footer, (front,) = await together(
        partial(_footer, store, path, tail), partial(store.get_ranges, path, [(0, head)])
    )
    return replace(footer, front=memoryview(front)[: footer.data_start])


async def _footer(store: ObjectStore, path: str, tail: int) -> FetchedFooter:
    suffix = await store.get_suffix(path, max(tail, TRAILER))
    found = footer_within(path, suffix)
    if found is not None:
        return found
    size = suffix.object_size
    held = memoryview(suffix.data)
    held_start = size - len(held)
    footer_start = size - TRAILER - _footer_length(path, size, held)
    front = await store.get_range(path, footer_start, held_start)
    if len(front) != held_start - footer_start:
        raise InvalidTableError(
            f"{path}: changed while its footer was read: {held_start - footer_start:,} bytes "
            f"were asked for at {footer_start:,}, {len(front):,} came. Data files are never "
            "overwritten in a Delta table: find out what wrote this one again."
        )
    footer = memoryview(b"".join((front, held)))
    return FetchedFooter(path, size, footer, footer_start, memoryview(b""))


def footer_within(path: str, suffix: SuffixRead) -> FetchedFooter | None:
    """The footer in the last bytes of the object at `path`; None where it does not fit into them.

    Raises:
        InvalidTableError: the object is no Parquet, is cut short, or is encrypted.
    """
    size = suffix.object_size
    held = memoryview(suffix.data)
    held_start = size - len(held)
    footer_start = size - TRAILER - _footer_length(path, size, held)
    if footer_start < held_start:
        return None
    split = footer_start - held_start
    if split == 0:
        return FetchedFooter(path, size, held, footer_start, memoryview(b""))
    return FetchedFooter(path, size, held[split:], held_start, held[:split])


def footer_bytes(path: str, suffix: SuffixRead) -> bytes | None:
    """As `footer_within`, the footer alone: its metadata with the eight bytes behind it.

    Raises: as `footer_within`.
    """
    data, length = suffix.data, footer_size(path, suffix)
    return bytes(data[-length:]) if length <= len(data) else None


def footer_size(path: str, suffix: SuffixRead) -> int:
    """How many of the last bytes of the object at `path` are its footer, the trailer among them.

    Raises: as `footer_within`.
    """
    return TRAILER + _footer_length(path, suffix.object_size, suffix.data)


async def read_metadata(
    store: ObjectStore, path: str, *, tail: int = DEFAULT_TAIL
) -> pq.FileMetaData:
    """The metadata of the object at `path`.

    Raises:
        InvalidTableError: the object is no Parquet, is cut short, or is encrypted.
        ObjectNotFoundError: there is no such object.
    """
    fetched = await fetch_footer(store, path, tail=tail)
    return await in_thread(fetched.parse)


def check_counts(path: str, metadata: pq.FileMetaData, leaves: int) -> None:
    """Hold a footer's numbers of columns and rows to its schema, which has so many `leaves`.

    Raises:
        InvalidTableError: the footer is damaged.
    """
    if leaves != metadata.num_columns:
        raise InvalidTableError(
            f"{path}: stores {metadata.num_columns} columns where its schema has {leaves}. The "
            "footer is damaged: restore the object, or remove it from the table."
        )
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if sum(groups) != metadata.num_rows or min(groups, default=0) < 0:
        raise InvalidTableError(
            f"{path}: says that it has {metadata.num_rows:,} rows, and its row groups have "
            f"{sum(groups):,}. The footer is damaged: restore the object, or remove it from the "
            "table."
        )


def _footer_length(path: str, size: int, held: bytes | memoryview) -> int:
    """Bytes of thrift metadata that the object's last eight bytes announce."""
    if size == 0:
        raise InvalidTableError(
            f"{path}: is empty, so it is no Parquet file. The write that made it did not finish: "
            "restore the object, or remove it from the table."
        )
    if size < len(_MAGIC) + TRAILER or len(held) < TRAILER:
        raise InvalidTableError(
            f"{path}: has {size:,} bytes, too few for a Parquet file. Restore the object, or "
            "remove it from the table."
        )
    magic = bytes(held[-4:])
    if magic == _ENCRYPTED_MAGIC:
        raise InvalidTableError(
            f"{path}: its footer is encrypted (Parquet modular encryption), which adelta does not "
            "read. Rewrite the file without encryption, or read the table with an engine that "
            "has the keys."
        )
    if magic != _MAGIC:
        raise InvalidTableError(
            f"{path}: is no Parquet file, or is cut short: it ends in {magic!r} where a Parquet "
            "file ends in b'PAR1'. Restore the object, or remove it from the table."
        )
    length = int.from_bytes(held[-TRAILER:-4], "little")
    if length == 0 or length > size - TRAILER - len(_MAGIC):
        raise InvalidTableError(
            f"{path}: its last bytes announce a footer of {length:,} bytes in an object of "
            f"{size:,}. The object is damaged: restore it, or remove it from the table."
        )
    return length
