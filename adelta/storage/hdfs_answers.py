"""What WebHDFS answers, read and checked: statuses of files, listings, and Java's exceptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from adelta._dataclasses import dataclass
from adelta.errors import StorageError
from adelta.storage.object_answers import Failure, Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "HdfsStatus",
    "boolean_of",
    "document_of",
    "failure_of_hdfs",
    "listed",
    "status_of",
    "string_of",
]

_LARGEST = 1 << 62
_FIELD = r'"{}"\s*:\s*"((?:[^"\\]|\\.)*)'
_EXCEPTION = re.compile(_FIELD.format("exception"))
_MESSAGE = re.compile(_FIELD.format("message"))
_LONGEST_MESSAGE = 500
_NO_FILE = re.compile(r"is not a directory|Path is not a file|does not exist", re.IGNORECASE)
_KINDS: Mapping[str, Kind] = {
    "FileNotFoundException": Kind.NOT_FOUND,
    "FileAlreadyExistsException": Kind.EXISTS,
    "InvalidToken": Kind.EXPIRED,
    "SecurityException": Kind.DENIED,
    "AuthorizationException": Kind.DENIED,
    "AccessControlException": Kind.DENIED,
    "AuthenticationException": Kind.DENIED,
    "StandbyException": Kind.BUSY,
    "ObserverRetryOnActiveException": Kind.BUSY,
    "RetriableException": Kind.BUSY,
    "SafeModeException": Kind.BUSY,
    "AlreadyBeingCreatedException": Kind.BUSY,
    "LeaseExpiredException": Kind.BUSY,
    "EOFException": Kind.OUT_OF_RANGE,
}
_ADVICE = {
    "StandbyException": (
        "no namenode that is known is the active one: name all of them by dfs.ha.namenodes"
    ),
    "SafeModeException": "wait until the namenode has left safe mode",
    "DSQuotaExceededException": "have the folder's quota of bytes raised, or free some",
    "NSQuotaExceededException": "have the folder's quota of names raised, or free some",
    "InvalidToken": "get another delegation token",
}


@dataclass(frozen=True, slots=True)
class HdfsStatus:
    """What the namenode says of a file or directory, called `name` in its directory.

    `number` is that of the inode, which no other has, and which a rename leaves; 0 where the
    gateway that answers does not tell it.
    """

    name: str
    is_file: bool
    is_directory: bool
    size: int
    modified_ms: int
    number: int

    @property
    def tag(self) -> str:
        """The entity tag of the file: another one once it is written again."""
        return f"{self.number:x}-{self.modified_ms:x}-{self.size:x}"


def document_of(body: bytes, what: str) -> dict[str, Any]:
    """The object that an answer is. Raises: StorageError."""
    try:
        said = orjson.loads(body)
    except ValueError as error:
        raise StorageError(f"the answer to {what} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise StorageError(f"the answer to {what} is no object of JSON")
    return said


def status_of(body: bytes, what: str) -> HdfsStatus:
    """The status that the answer to GETFILESTATUS is. Raises: StorageError."""
    return _status(document_of(body, what).get("FileStatus"), what)


def boolean_of(body: bytes, what: str) -> bool | None:
    """The truth value that an answer is, None of an empty one. Raises: StorageError."""
    if not body.strip():
        return None
    said = document_of(body, what).get("boolean")
    if not isinstance(said, bool):
        raise StorageError(f"the answer to {what} says neither true nor false")
    return said


def string_of(body: bytes, what: str) -> str:
    """The text that stands for a token in an answer. Raises: StorageError."""
    token = document_of(body, what).get("Token")
    said = token.get("urlString") if isinstance(token, dict) else None
    if not isinstance(said, str) or not re.fullmatch(r"[A-Za-z0-9_-]+", said):
        raise StorageError(f"the answer to {what} has no token")
    return said


def listed(body: bytes, what: str) -> tuple[list[HdfsStatus], bool]:
    """The entries of a page of a directory, and whether there are more after them.

    The answer is one to LISTSTATUS_BATCH, or to LISTSTATUS, which has all. A path that is a file is
    no directory: it has no entries. Raises: StorageError.
    """
    said = document_of(body, what)
    left: object = 0
    if isinstance(batch := said.get("DirectoryListing"), dict):
        left = batch.get("remainingEntries", 0)
        partial = batch.get("partialListing")
        said = partial if isinstance(partial, dict) else {}
    held = said.get("FileStatuses")
    items = held.get("FileStatus") if isinstance(held, dict) else None
    if not isinstance(items, list) or not isinstance(left, int):
        raise StorageError(f"the answer to {what} is no listing of a directory")
    found = [_status(item, what) for item in items]
    return [each for each in found if each.name], left > 0


def _status(said: object, what: str) -> HdfsStatus:
    if not isinstance(said, dict):
        raise StorageError(f"the answer to {what} has no status of a file")
    name, kind = said.get("pathSuffix", ""), said.get("type")
    numbers = [said.get(key, 0) for key in ("length", "modificationTime", "fileId")]
    if (
        not isinstance(name, str)
        or not isinstance(kind, str)
        or not all(type(each) is int and 0 <= each < _LARGEST for each in numbers)
    ):
        raise StorageError(f"the answer to {what} has a status that is none: {str(said)[:300]}")
    if name in (".", "..") or "/" in name or "\0" in name:
        raise StorageError(f"{what} has the name {name!r:.300}, which no file can have")
    return HdfsStatus(name, kind == "FILE", kind == "DIRECTORY", *numbers)


def failure_of_hdfs(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an answer means that is no success: the exception of Java's that it tells of.

    Its body may have been cut in the middle of a trace. Which status an exception comes with says
    little: most come with 403.
    """
    text = body.decode(errors="replace")
    code = _field(_EXCEPTION, text)
    message = _field(_MESSAGE, text).partition("\n")[0][:_LONGEST_MESSAGE]
    kind = _KINDS.get(code)
    if "InvalidToken" in message or "token is expired" in message:
        kind, code = Kind.EXPIRED, "InvalidToken"
    elif kind is Kind.DENIED and _NO_FILE.search(message):
        kind = Kind.NOT_FOUND  # below a file, which is entered like a directory
    elif code == "ParentNotDirectoryException":
        kind = Kind.NOT_FOUND
    elif kind is None and "out of the range [" in message:
        kind = Kind.OUT_OF_RANGE
    elif kind is None and "Failed to find datanode" in message:
        kind = Kind.BUSY
    elif kind is None and code:
        kind = Kind.BROKEN if status >= 500 else Kind.REFUSED
    elif kind is None:
        kind = Kind.EXPIRED if status == 401 else kind_of(status)
        if kind is Kind.WRONG_REGION:
            kind = Kind.REFUSED
    if code == "IllegalArgumentException" and "parameter" in message and "op" in message:
        kind = Kind.UNSUPPORTED
    reason = " ".join(filter(None, (f"HTTP {status}", code, message)))
    return Failure(kind, code, reason, headers, advice=_ADVICE.get(code))


def _field(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        return ""
    try:
        decoded: str = orjson.loads(f'"{found[1]}"')
    except ValueError:
        return found[1]
    return decoded
