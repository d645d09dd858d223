"""The calls that a process makes to the system about files, handed to another process to decide on.

Linux only, and without privileges: a process hands its calls over by a seccomp filter with a
listener (seccomp_unotify(2)), which holds each of them up until the listener has answered: go on,
or fail with this error. Threads that are begun afterwards are held up as well, and it makes no
difference whether a call comes from Python or from Arrow.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Call", "Listener", "hand_over", "why_not"]

# For each call what it takes, and its number on x86-64 (asm/unistd_64.h) and on 64-bit ARM
# (asm-generic/unistd.h), if it is there. `at` is the descriptor of a folder with a path.
_CALLS: Mapping[str, tuple[str, int | None, int | None]] = {
    "access": ("path", 21, None),
    "chmod": ("path", 90, None),
    "close": ("fd", 3, 57),
    "copy_file_range": ("fd", 326, 285),
    "faccessat": ("at", 269, 48),
    "faccessat2": ("at", 439, 439),
    "fadvise64": ("fd", 221, 223),
    "fallocate": ("fd", 285, 47),
    "fchmod": ("fd", 91, 52),
    "fchmodat": ("at", 268, 53),
    "fchown": ("fd", 93, 55),
    "fchownat": ("at", 260, 54),
    "fdatasync": ("fd", 75, 83),
    "flock": ("fd", 73, 32),
    "fstat": ("fd", 5, 80),
    "fstatfs": ("fd", 138, 44),
    "fsync": ("fd", 74, 82),
    "ftruncate": ("fd", 77, 46),
    "getdents64": ("fd", 217, 61),
    "link": ("two paths", 86, None),
    "linkat": ("two at", 265, 37),
    "lseek": ("fd", 8, 62),
    "lstat": ("path", 6, None),
    "mkdir": ("path", 83, None),
    "mkdirat": ("at", 258, 34),
    "mknodat": ("at", 259, 33),
    "mmap": ("fifth is fd", 9, 222),
    "newfstatat": ("at", 262, 79),
    "open": ("path", 2, None),
    "openat": ("at", 257, 56),
    "openat2": ("at", 437, 437),
    "pread64": ("fd", 17, 67),
    "preadv": ("fd", 295, 69),
    "pwrite64": ("fd", 18, 68),
    "pwritev": ("fd", 296, 70),
    "read": ("fd", 0, 63),
    "readlink": ("path", 89, None),
    "readlinkat": ("at", 267, 78),
    "readv": ("fd", 19, 65),
    "rename": ("two paths", 82, None),
    "renameat": ("two at", 264, 38),
    "renameat2": ("two at", 316, 276),
    "rmdir": ("path", 84, None),
    "sendfile": ("fd", 40, 71),
    "stat": ("path", 4, None),
    "statfs": ("path", 137, 43),
    "statx": ("at", 332, 291),
    "symlinkat": ("second at", 266, 36),
    "sync_file_range": ("fd", 277, 84),
    "truncate": ("path", 76, 45),
    "unlink": ("path", 87, None),
    "unlinkat": ("at", 263, 35),
    "utimensat": ("at", 280, 88),
    "write": ("fd", 1, 64),
    "writev": ("fd", 20, 66),
}
_COLUMN = {"x86_64": 1, "aarch64": 2}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_VARIANTS = {"open": "openat", "link": "linkat", "rename": "renameat", "mkdir": "mkdirat"}
_VARIANTS |= {"unlink": "unlinkat", "renameat2": "renameat", "fdatasync": "fsync"}

_ROOT = Path(__file__).resolve().parents[2]
_TRY = "import os; from tests.support.system_calls import hand_over; hand_over(); os._exit(0)"

_AT_FDCWD = -100
_NO_NEW_PRIVILEGES = 38
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # instructions of a classic BPF program
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Call:
    """One call, held up. `path` is what it is about, `other` the second name of a link or rename.

    `name` is the same for variants of one call: ``linkat`` for link too.
    """

    id: int
    name: str
    path: str
    other: str
    arguments: tuple[int, ...]

    @property
    def creates(self) -> bool:
        """Whether it may make a new file."""
        return self.name == "openat" and bool(self._flags & os.O_CREAT)

    @property
    def truncates(self) -> bool:
        """Whether it empties a file that is there."""
        return self.name == "openat" and bool(self._flags & os.O_TRUNC)

    @property
    def publishes(self) -> str:
        """The name that it gives to a file; empty where it gives none."""
        return self.other if self.name in ("linkat", "renameat") else ""

    @property
    def _flags(self) -> int:
        return self.arguments[2]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(filter(None, (self.path, self.other)))})"


def why_not() -> str | None:
    """Why calls cannot be handed over here; None where they can."""
    if sys.platform != "linux" or platform.machine() not in _COLUMN:
        return f"system calls are handed over on Linux, and this is {platform.platform()}"
    done = subprocess.run(
        [sys.executable, "-c", _TRY], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    return f"calls cannot be handed over here: {done.stderr.strip().rpartition(chr(10))[2]}"


def _names() -> dict[int, str]:
    column = _COLUMN[platform.machine()]
    numbers = {name: entry[column] for name, entry in _CALLS.items()}
    return {number: name for name, number in numbers.items() if isinstance(number, int)}


def hand_over() -> int:
    """Hold up every call about files of this thread, and of those that it begins, from now on.

    Returns the listener's descriptor, which is for another process.

    Raises:
        OSError: the system does not allow it.
    """
    numbers = sorted(_names())
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURE[platform.machine()]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, 0),
        *((_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]
    instructions = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    held = ctypes.create_string_buffer(instructions, len(instructions))
    header = struct.pack("@HP", len(program), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")
    number = _SECCOMP[platform.machine()]
    listener = libc.syscall(number, _SET_FILTER, _NEW_LISTENER, header)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "a listener is refused")
    return int(listener)


class Listener:
    """The other end: takes the calls of the process `pid`, one after the other, and answers."""

    def __init__(self, descriptor: int, pid: int) -> None:
        self.descriptor = descriptor
        self._process = f"/proc/{pid}"
        self._memory = os.open(f"{self._process}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self._names = _names()

    def close(self) -> None:
        os.close(self._memory)
        os.close(self.descriptor)

    def receive(self) -> Call | None:
        """The next call; None where its thread has gone meanwhile."""
        notice = bytearray(80)
        try:
            fcntl.ioctl(self.descriptor, _RECEIVE, notice)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        identity, _, _, number, _, _, *arguments = struct.unpack("=QIIiIQ6Q", notice)
        name = self._names[number]
        path, other, taken = self._named(name, tuple(arguments))
        return Call(identity, _VARIANTS.get(name, name), path, other, taken)

    def resume(self, call: Call) -> None:
        """Let the call go on."""
        self._answer(call, 0, _CONTINUE)

    def fail(self, call: Call, number: int) -> None:
        """Let the call fail with this error, and do nothing."""
        self._answer(call, -number, 0)

    def written(self, call: Call) -> tuple[int, bytes]:
        """Where a write is to put bytes into its file, and which."""
        descriptor, address, length, *rest = call.arguments
        descriptor = _signed(descriptor)
        if call.name == "pwrite64":
            at = rest[0]
        else:
            with open(f"{self._process}/fdinfo/{descriptor}") as info:
                at = int(info.readline().split()[1])
        return at, os.pread(self._memory, length, address)

    def _answer(self, call: Call, error: int, flags: int) -> None:
        with contextlib.suppress(FileNotFoundError):  # the thread has gone
            fcntl.ioctl(self.descriptor, _SEND, struct.pack("=QqiI", call.id, 0, error, flags))

    def _named(self, name: str, given: tuple[int, ...]) -> tuple[str, str, tuple[int, ...]]:
        """What the call is about, and its arguments as those of the variant for folders."""
        takes = _CALLS[name][0]
        match takes:
            case "fd":
                return self._opened(given[0]), "", given
            case "fifth is fd":
                return self._opened(given[4]), "", given
            case "path":
                return self._path(_AT_FDCWD, given[0]), "", (_AT_FDCWD, *given)
            case "at":
                return self._path(given[0], given[1]), "", given
            case "second at":
                return self._path(given[1], given[2]), "", given
            case "two paths":
                return self._path(_AT_FDCWD, given[0]), self._path(_AT_FDCWD, given[1]), given
            case _:
                return self._path(given[0], given[1]), self._path(given[2], given[3]), given

    def _path(self, folder: int, address: int) -> str:
        path = self._text(address)
        if path.startswith("/"):
            return path
        here = _signed(folder) == _AT_FDCWD
        base = os.readlink(f"{self._process}/cwd") if here else self._opened(folder)
        return f"{base}/{path}" if path else base

    def _opened(self, descriptor: int) -> str:
        """The name under which the file was opened, or has been renamed since."""
        try:
            return os.readlink(f"{self._process}/fd/{_signed(descriptor)}")
        except OSError:
            return ""

    def _text(self, address: int) -> str:
        pieces: list[bytes] = []
        while address:
            piece = os.pread(self._memory, _PAGE - address % _PAGE, address)
            end = piece.find(b"\0")
            pieces.append(piece if end < 0 else piece[:end])
            if end >= 0 or not piece:
                break
            address += len(piece)
        return os.fsdecode(b"".join(pieces))


def _signed(argument: int) -> int:
    """An `int` of C, of which the register holds 64 bits."""
    return ctypes.c_int32(argument & 0xFFFFFFFF).value
