"""DeltaFileSystemHandler: a store of adelta's, by the verbs of pyarrow's file systems."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from adelta import errors as e
from adelta.deltalake._storage_options import DEFAULT_BUFFER_SIZE, buffer_size, known_options
from adelta.deltalake.exceptions import raises_as_deltalake
from adelta.storage import open_store
from adelta.sync._portal import call, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.deltalake._raw import RawDeltaTable
    from adelta.storage.object_store import ObjectMeta

__all__ = ["DeltaFileSystemHandler", "ObjectInputFile", "ObjectOutputStream"]

_CHUNK = 8 * 1024 * 1024


class DeltaFileSystemHandler:
    """The objects below a table's root. Paths are relative to it; folders are what paths imply."""

    def __init__(
        self,
        table_uri: str,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,
    ) -> None:
        self._uri = str(table_uri)
        self._options = options
        self._sizes = dict(known_sizes or {})
        self._store = run(open_store, self._uri, known_options(options))

    @classmethod
    def from_table(
        cls,
        table: RawDeltaTable,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,
    ) -> DeltaFileSystemHandler:
        """The folder of a table."""
        return cls(table.root, options, known_sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return DeltaFileSystemHandler, (self._uri, self._options, self._sizes)

    def get_type_name(self) -> str:
        """The kind of file system."""
        return "object-store"

    def normalize_path(self, path: str) -> str:
        """The path without slashes at its ends."""
        return path.strip("/")

    def equals(self, other: Any) -> bool:
        """Whether both are on the same folder."""
        handler = getattr(other, "_handler", other)
        return isinstance(handler, DeltaFileSystemHandler) and handler._store.uri == self._store.uri

    # ------------------------------------------------------------------------------ what there is

    @raises_as_deltalake
    def get_file_info(self, paths: list[str]) -> list[Any]:
        """What is at each path."""
        return [self._info(path.strip("/")) for path in paths]

    @raises_as_deltalake
    def get_file_info_selector(
        self, base_dir: str, allow_not_found: bool = False, recursive: bool = False
    ) -> list[Any]:
        """What is in a folder; of one that is not there nothing, as stores have no folders."""
        base = base_dir.strip("/")
        prefix = f"{base}/" if base else ""
        found: dict[str, Any] = {}
        for meta in self._listed(prefix):
            steps = meta.path[len(prefix) :].split("/")
            for depth in range(1, len(steps) if recursive else min(len(steps), 2)):
                folder = prefix + "/".join(steps[:depth])
                found.setdefault(folder, _file_info(folder, "Directory"))
            if recursive or len(steps) == 1:
                found[meta.path] = _file_info(meta.path, "File", meta)
        return list(found.values())

    def _info(self, path: str) -> Any:
        if path in self._sizes:
            return _file_info(path, "File", size=self._sizes[path])
        try:
            if path:
                return _file_info(path, "File", call(self._store.head, path))
        except e.ObjectNotFoundError:
            pass
        except e.StorageError:  # a folder of this machine
            if not self._has_any(path):
                raise
        there = self._has_any(path) or not path
        return _file_info(path, "Directory" if there else "NotFound")

    def _has_any(self, path: str) -> bool:
        return any(True for _ in self._listed(f"{path}/" if path else ""))

    def _listed(self, prefix: str) -> list[ObjectMeta]:
        async def listed() -> list[ObjectMeta]:
            found: list[ObjectMeta] = []
            async for page in self._store.list(prefix):
                found += page
            return found

        return call(listed)

    # ------------------------------------------------------------------------------------- changes

    @raises_as_deltalake
    def copy_file(self, src: str, dst: str) -> None:
        """Write a file once more, at another path, whatever is there."""

        async def copy() -> None:
            await self._store.put(dst.strip("/"), await self._store.get(src.strip("/")))

        call(copy)

    @raises_as_deltalake
    def move_file(self, src: str, dest: str) -> None:
        """Give a file another path."""
        self.copy_file(src, dest)
        self.delete_file(src)

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Do nothing: folders come with the files in them."""

    @raises_as_deltalake
    def delete_file(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: there is none.
        """
        path = path.strip("/")
        self._sizes.pop(path, None)
        call(self._store.head, path)
        call(self._store.delete, [path])

    @raises_as_deltalake
    def delete_dir(self, path: str) -> None:
        """Delete everything in a folder."""
        found = [meta.path for meta in self._listed(f"{path.strip('/')}/")]
        call(self._store.delete, found)

    def delete_dir_contents(
        self, path: str, *, accept_root_dir: bool = False, missing_dir_ok: bool = False
    ) -> None:
        """Delete everything in a folder.

        Raises:
            ValueError: it is the root, which has to be asked for.
            FileNotFoundError: there is no such folder.
        """
        if not path.strip("/"):
            if not accept_root_dir:
                raise ValueError("delete_dir_contents() of the root needs accept_root_dir=True")
            self.delete_root_dir_contents()
            return
        if not missing_dir_ok and not self._has_any(path.strip("/")):
            raise FileNotFoundError(f"{self._store.uri}/{path}: there is no such folder")
        self.delete_dir(path)

    @raises_as_deltalake
    def delete_root_dir_contents(self) -> None:
        """Delete everything below the root, the table's log included."""
        call(self._store.delete, [meta.path for meta in self._listed("")])

    @raises_as_deltalake
    def open_input_file(self, path: str) -> ObjectInputFile:
        """A file for reading at any place.

        Raises:
            FileNotFoundError: there is none.
        """
        path = path.strip("/")
        size = self._sizes.get(path)
        if size is None:
            size = call(self._store.head, path).size
        return ObjectInputFile(self._store, path, size)

    def open_output_stream(
        self, path: str, metadata: dict[str, str] | None = None
    ) -> ObjectOutputStream:
        """A file for writing from its beginning; it is there when it is closed."""
        self._sizes.pop(path.strip("/"), None)
        size = buffer_size(self._options)
        if size < DEFAULT_BUFFER_SIZE:
            warnings.warn(
                f"You specified a `max_buffer_size` of {size} bits less than {DEFAULT_BUFFER_SIZE} "
                "bits. adelta takes it as bytes, and holds more than that of a file on disk until "
                "it is written; leave it out to hold more in memory",
                UserWarning,
                stacklevel=2,
            )
        return ObjectOutputStream(self._store, path.strip("/"), size)


class ObjectInputFile(io.RawIOBase):
    """An object that is read in ranges."""

    def __init__(self, store: Any, path: str, size: int) -> None:
        self._store, self._path, self._size, self._at = store, path, size, 0

    @property
    def mode(self) -> str:
        """Reading bytes."""
        return "rb"

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, counted from the beginning, from here, or from the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + position < 0:
            raise ValueError(f"there is no place {start + position} in a file")
        self._at = start + position
        return self._at

    @raises_as_deltalake
    def read(self, nbytes: int | None = -1) -> bytes:
        """At most so many bytes from here on; all that are left where the number is negative."""
        end = self._size if nbytes is None or nbytes < 0 else min(self._size, self._at + nbytes)
        if end <= self._at:
            return b""
        found: bytes = call(self._store.get_range, self._path, self._at, end)
        self._at = end
        return found


class ObjectOutputStream(io.RawIOBase):
    """An object that is written when it is closed."""

    def __init__(self, store: Any, path: str, buffer_size: int = DEFAULT_BUFFER_SIZE) -> None:
        import tempfile

        self._store, self._path = store, path
        self._written = 0
        self._spool = tempfile.SpooledTemporaryFile(max_size=buffer_size)  # noqa: SIM115

    @property
    def mode(self) -> str:
        """Writing bytes."""
        return "wb"

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """How many bytes have been written."""
        return self._written

    def size(self) -> int:
        """How many bytes have been written."""
        return self._written

    def write(self, data: Any) -> int:
        """Take in bytes."""
        view = memoryview(data)
        self._spool.write(view)
        self._written += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Write the object."""
        if self.closed:
            return
        super().close()
        spool = self._spool
        spool.seek(0)

        async def chunks() -> AsyncIterator[bytes]:
            while chunk := spool.read(_CHUNK):
                yield chunk

        async def put() -> None:
            await self._store.put_stream(self._path, chunks())

        try:
            raises_as_deltalake(call)(put)
        finally:
            spool.close()


def _file_info(
    path: str, kind: str, meta: ObjectMeta | None = None, size: int | None = None
) -> Any:
    from pyarrow.fs import FileInfo, FileType  # noqa: TID251 - what a file system tells pyarrow

    told: dict[str, Any] = {"type": getattr(FileType, kind)}
    if meta is not None:
        told |= {"size": meta.size, "mtime_ns": meta.last_modified_ms * 1_000_000}
    elif size is not None:
        told["size"] = size
    return FileInfo(path, **told)
