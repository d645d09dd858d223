"""An SFTP server of this process, by paramiko: its protocol is real, its files are in a folder."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import paramiko

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["SftpServer", "running_sftp_server"]

PASSWORD = "of the tests"


class _Login(paramiko.ServerInterface):
    def check_auth_password(self, username: str, password: str) -> int:
        right = password == PASSWORD
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


def _answer(work: Callable[[], object]) -> Any:
    """What the protocol says of a call of the system."""
    try:
        found = work()
    except OSError as error:
        return paramiko.SFTPServer.convert_errno(error.errno or 0)
    return paramiko.SFTP_OK if found is None else found


class _Handle(paramiko.SFTPHandle):
    def stat(self) -> Any:
        return _answer(lambda: paramiko.SFTPAttributes.from_stat(os.fstat(self.readfile.fileno())))


class _Files(paramiko.SFTPServerInterface):
    root = ""

    def _real(self, path: str) -> str:
        return self.root + self.canonicalize(path)

    def list_folder(self, path: str) -> Any:
        real = self._real(path)

        def entries() -> list[Any]:
            return [
                paramiko.SFTPAttributes.from_stat(os.lstat(f"{real}/{name}"), name)
                for name in os.listdir(real)
            ]

        return _answer(entries)

    def stat(self, path: str) -> Any:
        return _answer(lambda: paramiko.SFTPAttributes.from_stat(os.stat(self._real(path))))

    def lstat(self, path: str) -> Any:
        return _answer(lambda: paramiko.SFTPAttributes.from_stat(os.lstat(self._real(path))))

    def open(self, path: str, flags: int, attr: Any) -> Any:
        def opened() -> _Handle:
            descriptor = os.open(self._real(path), flags, 0o666)
            mode = {os.O_WRONLY: "wb", os.O_RDWR: "r+b"}.get(flags & os.O_ACCMODE, "rb")
            handle = _Handle(flags)
            handle.readfile = handle.writefile = os.fdopen(descriptor, mode)
            return handle

        return _answer(opened)

    def remove(self, path: str) -> Any:
        return _answer(lambda: os.remove(self._real(path)))

    def rename(self, oldpath: str, newpath: str) -> Any:
        return _answer(lambda: os.link(self._real(oldpath), self._real(newpath)))

    def posix_rename(self, oldpath: str, newpath: str) -> Any:
        return _answer(lambda: os.replace(self._real(oldpath), self._real(newpath)))

    def mkdir(self, path: str, attr: Any) -> Any:
        return _answer(lambda: os.mkdir(self._real(path)))

    def rmdir(self, path: str) -> Any:
        return _answer(lambda: os.rmdir(self._real(path)))


@dataclass(frozen=True, slots=True)
class SftpServer:
    """Where it listens, and connections that it has, which `break_connections` breaks."""

    address: str
    options: dict[str, str]
    connections: list[paramiko.Transport]

    def break_connections(self) -> None:
        """Break all connections that there are; new ones can be made."""
        while self.connections:
            self.connections.pop().close()


@contextmanager
def running_sftp_server(folder: Path) -> Iterator[SftpServer]:
    """Serve the files of a folder until the block ends."""
    key = paramiko.RSAKey.generate(2048)
    files = type("_FilesBelow", (_Files,), {"root": str(folder)})
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listener.getsockname()[1]
    options = {"fsspec_options": f'{{"port": {port}, "password": "{PASSWORD}"}}'}
    server = SftpServer("sftp://me@127.0.0.1", options, [])

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, files)
            with suppress(Exception):
                transport.start_server(event=threading.Event(), server=_Login())
            server.connections.append(transport)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)
        server.break_connections()
