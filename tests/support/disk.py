"""A disk that loses what was not synced: what may be left of a folder when the power fails.

The model is POSIX's, which is stricter than any one file system: the bytes of a file outlive the
loss once the file has been synced, and a name (created, linked, renamed or removed) once its
directory has. What was not synced may be lost or kept, each change by itself: a name may be there
whose file has no bytes yet, and a later change of a directory without an earlier one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.support.system_calls import Call, Listener

__all__ = ["Change", "Disk", "Image", "memory_folder", "restore"]

Image = dict[str, bytes | None]
"""What is in a folder, by the path below it: the bytes of files, and None for directories."""

_READS = frozenset(
    {
        "access", "close", "faccessat", "faccessat2", "fadvise64", "flock", "fstat", "fstatfs",
        "getdents64", "lseek", "lstat", "newfstatat", "pread64", "preadv", "read", "readlink",
        "readlinkat", "readv", "stat", "statfs", "statx", "mmap", "fchmod", "fchmodat", "chmod",
        "utimensat",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a folder, or ``ended``: that the operation `path` has ended."""

    kind: str
    path: str
    other: str = ""
    at: int = 0
    data: bytes = b""

    @classmethod
    def of(cls, call: Call, listener: Listener) -> list[Change]:
        """The changes that a call is to make.

        Raises:
            RuntimeError: what the call does is not known here.
        """
        if call.name == "openat":
            new = [cls("create", call.path)] if call.creates else []
            return [*new, cls("truncate", call.path)] if call.truncates else new
        if call.name in ("write", "pwrite64"):
            at, data = listener.written(call)
            return [cls("write", call.path, at=at, data=data)]
        if call.name == "ftruncate":
            return [cls("truncate", call.path, at=call.arguments[1])]
        if call.name in ("linkat", "renameat"):
            return [cls(call.name, call.path, call.other)]
        if call.name in ("unlinkat", "mkdirat", "rmdir", "fsync"):
            return [cls(call.name, call.path)]
        if call.name in _READS:
            return []
        raise RuntimeError(f"{call}: the model of the disk does not know what this changes")


@dataclass(eq=False, slots=True)
class _Node:
    """A file, with its bytes as programs see them, and as they were last synced; or a directory."""

    directory: bool = False
    data: bytes = b""
    synced: bytes = b""


@dataclass(frozen=True, slots=True)
class _Renaming:
    """A change of a directory's names that is one: a name gone, a name there, or both."""

    directory: str
    gone: str = ""
    there: str = ""
    node: _Node | None = None


@dataclass
class Disk:
    """What programs see of `folder` (`names`), what is `durable`, and changes in between."""

    folder: str
    names: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    pending: list[_Renaming] = field(default_factory=list)

    @classmethod
    def of(cls, folder: str) -> Disk:
        """A folder as it is, all of it durable."""
        names = {folder: _Node(directory=True)}
        for path in Path(folder).rglob("*"):
            data = b"" if path.is_dir() else path.read_bytes()
            names[str(path)] = _Node(path.is_dir(), data, data)
        return cls(folder, names, dict(names))

    def apply(self, change: Change) -> None:
        """Do what the change says; one that the system would refuse does nothing."""
        node = self.names.get(change.path)
        directory = os.path.dirname(change.path)
        match change.kind:
            case "create" | "mkdirat" if node is None and directory in self.names:
                made = _Node(directory=change.kind == "mkdirat")
                self._rename(_Renaming(directory, there=change.path, node=made))
            case "unlinkat" | "rmdir" if node is not None:
                self._rename(_Renaming(directory, gone=change.path))
            case "linkat" if node is not None and change.other not in self.names:
                there = os.path.dirname(change.other)
                self._rename(_Renaming(there, there=change.other, node=node))
            case "renameat" if node is not None:
                assert directory == os.path.dirname(change.other), "it moves between directories"
                self._rename(_Renaming(directory, change.path, change.other, node))
            case "write" if node is not None:
                end = change.at + len(change.data)
                kept = node.data.ljust(change.at, b"\0")
                node.data = kept[: change.at] + change.data + kept[end:]
            case "truncate" if node is not None:
                node.data = node.data[: change.at].ljust(change.at, b"\0")
            case "fsync" if node is not None and node.directory:
                synced = [each for each in self.pending if each.directory == change.path]
                self._apply_to(self.durable, synced)
                self.pending = [each for each in self.pending if each not in synced]
            case "fsync" if node is not None:
                node.synced = node.data

    def image(self) -> Image:
        """What programs see."""
        return {
            path.removeprefix(self.folder): None if node.directory else node.data
            for path, node in self.names.items()
        }

    def images(self) -> Iterator[tuple[str, Image]]:
        """What may be left now, each with a word on what was lost."""
        pending = self.pending
        yield "what was not synced is lost", self._image([])
        yield "nothing is lost", self._image(pending, lost="nothing")
        yield "names are kept and bytes lost", self._image(pending)
        yield "names are kept and bytes garbled", self._image(pending, lost="garbled")
        for at, each in enumerate(pending):
            what = f"{each.gone or '-'} -> {each.there or '-'}"
            yield f"of names only {what} is kept", self._image([each])
            yield f"of names only {what} is lost", self._image(pending[:at] + pending[at + 1 :])

    def _rename(self, change: _Renaming) -> None:
        self._apply_to(self.names, [change])
        self.pending.append(change)

    @staticmethod
    def _apply_to(names: dict[str, _Node], changes: Iterable[_Renaming]) -> None:
        for change in changes:
            if change.gone:
                names.pop(change.gone, None)
            if change.node is not None:
                names[change.there] = change.node

    def _image(self, kept: Sequence[_Renaming], lost: str = "bytes") -> Image:
        names = dict(self.durable)
        self._apply_to(names, kept)
        return {
            path.removeprefix(self.folder): None if node.directory else _left_of(node, lost)
            for path, node in names.items()
            if self._is_reachable(path, names)
        }

    def _is_reachable(self, path: str, names: Mapping[str, _Node]) -> bool:
        while path != self.folder:
            path = os.path.dirname(path)
            if path not in names:
                return False
        return True


def _left_of(node: _Node, lost: str) -> bytes:
    if lost == "nothing":
        return node.data
    if lost == "garbled":
        return node.synced + b"\xa5" * (len(node.data) - len(node.synced))
    return node.synced


def memory_folder() -> str | None:
    """A folder in memory, where the system has one: syncing it costs nothing."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) else None


def restore(image: Image, folder: str) -> None:
    """Make a folder what the image says."""
    for path in sorted(image):
        data = image[path]
        if data is None:
            os.makedirs(folder + path, exist_ok=True)
        else:
            Path(folder + path).write_bytes(data)
