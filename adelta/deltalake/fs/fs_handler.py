"""DeltaStorageHandler: a table's folder, handed to `pyarrow.fs.PyFileSystem`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.fs import FileSystemHandler  # noqa: TID251 - pyarrow's users ask for one

from adelta.deltalake.fs._base_handler import DeltaFileSystemHandler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.deltalake._raw import RawDeltaTable

__all__ = ["DeltaStorageHandler"]


class DeltaStorageHandler(FileSystemHandler):
    """A table's folder as pyarrow's file systems know one; paths are relative to the table."""

    def __init__(
        self,
        table_uri: str,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,
    ) -> None:
        self._handler = DeltaFileSystemHandler(table_uri, options, known_sizes)

    @classmethod
    def from_table(
        cls,
        table: RawDeltaTable,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,
    ) -> DeltaStorageHandler:
        """The folder of a table."""
        return cls(table.root, options, known_sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        handler = self._handler
        return type(self), (handler._uri, handler._options, handler._sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeltaStorageHandler) and self._handler.equals(other._handler)

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """The kind of file system."""
        return self._handler.get_type_name()

    def equals(self, other: Any) -> bool:
        """Whether both are on the same folder."""
        return self._handler.equals(other)

    def normalize_path(self, path: str) -> str:
        """The path without slashes at its ends."""
        return self._handler.normalize_path(path)

    def get_file_info(self, paths: str | list[str]) -> Any:
        """What is at each path."""
        return self._handler.get_file_info([paths] if isinstance(paths, str) else paths)

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        """What is in the folder that a selector names."""
        return self._handler.get_file_info_selector(
            selector.base_dir, selector.allow_not_found, selector.recursive
        )

    def copy_file(self, src: str, dst: str) -> None:
        """Write a file once more, at another path, whatever is there."""
        self._handler.copy_file(src, dst)

    def move(self, src: str, dest: str) -> None:
        """Give a file another path."""
        self._handler.move_file(src, dest)

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Do nothing: folders come with the files in them."""

    def delete_dir(self, path: str) -> None:
        """Delete everything in a folder."""
        self._handler.delete_dir(path)

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        self._handler.delete_file(path)

    def delete_dir_contents(  # type: ignore[override]
        self, path: str, *, accept_root_dir: bool = False, missing_dir_ok: bool = False
    ) -> None:
        """Delete everything in a folder."""
        self._handler.delete_dir_contents(
            path, accept_root_dir=accept_root_dir, missing_dir_ok=missing_dir_ok
        )

    def delete_root_dir_contents(self) -> None:
        """Delete everything below the root, the table's log included."""
        self._handler.delete_root_dir_contents()

    def open_input_file(self, path: str) -> pa.PythonFile:
        """A file for reading at any place."""
        return pa.PythonFile(self._handler.open_input_file(path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """A file for reading from its beginning."""
        return pa.PythonFile(self._handler.open_input_file(path), mode="r")

    def open_output_stream(
        self, path: str, metadata: dict[str, str] | None = None
    ) -> pa.PythonFile:
        """A file for writing from its beginning."""
        return pa.PythonFile(self._handler.open_output_stream(path, metadata), mode="w")

    def open_append_stream(self, path: str, metadata: Mapping[str, str]) -> Any:
        """Objects cannot be appended to.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "objects of a store are written whole; nothing can be appended to them"
        )
