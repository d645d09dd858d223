"""What the commit owner's service and its client say to each other: JSON, and the names of errors.

Commits are text: an action a line. Times are in milliseconds since the Unix epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.commit.owner import ProposedCommit, RatifiedCommit, RatifiedCommits
from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    PermissionDeniedError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.kernel.log_path import MAX_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "API",
    "ERRORS",
    "error_named",
    "is_error_name",
    "proposed_from",
    "proposed_json",
    "ratified_from",
    "ratified_json",
    "version_told",
]

API = "/api/v1"

ERRORS: tuple[tuple[type[AdeltaError], str, int], ...] = (
    (CommitOutcomeUnknownError, "CommitOutcomeUnknown", 500),
    (ThrottledError, "TooManyRequests", 429),
    (PermissionDeniedError, "PermissionDenied", 403),
    (TableNotFoundError, "TableNotFound", 404),
    (CommitConflictError, "Conflict", 409),
    (InvalidOptionError, "InvalidRequest", 400),
    (InvalidTableError, "InvalidVersion", 400),
    (StorageError, "Unavailable", 503),
)
"""How errors are told: the first one whose class fits, by its name and the status of HTTP."""

_NAMED = {name: kind for kind, name, _ in ERRORS} | {"NotAuthenticated": PermissionDeniedError}


def is_error_name(name: str) -> bool:
    """Whether owners tell an error by a name; what stands between them and clients has others."""
    return name in _NAMED


def error_named(name: str, message: str) -> AdeltaError:
    """The error that was told by a name."""
    return _NAMED.get(name, StorageError)(message)


def ratified_json(told: RatifiedCommits) -> dict[str, Any]:
    """What an owner says of a table, as JSON."""
    commits = []
    for commit in told.commits:
        one: dict[str, Any] = {"version": commit.version, "size": commit.size}
        if commit.staged_file is None:
            one["content"] = (commit.content or b"").decode()
        else:
            one |= {"staged_file": commit.staged_file, "modified_ms": commit.modified_ms}
        commits.append(one)
    return {"latest_version": told.latest_version, "commits": commits}


def ratified_from(body: Mapping[str, Any]) -> RatifiedCommits:
    """What an owner says of a table, from JSON.

    Raises:
        InvalidTableError: it is not what owners say.
    """
    try:
        return RatifiedCommits(
            version_told(body["latest_version"], -1),
            tuple(
                RatifiedCommit(
                    version_told(one["version"]),
                    _text(one.get("staged_file")),
                    None if (content := _text(one.get("content"))) is None else content.encode(),
                    version_told(one["size"]),
                    version_told(one.get("modified_ms", 0)),
                )
                for one in _list(body["commits"])
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidTableError(
            f"the commit owner describes a table in a way that is not its API's: {error!r:.300}"
        ) from error


def version_told(value: object, least: int = 0) -> int:
    """A version that an owner tells of, or another number of the kind.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not int or not least <= value <= MAX_VERSION:
        raise ValueError(f"{str(value)[:100]!r} is no whole number of {least} or more")
    return value


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{str(value)[:100]!r} is no text")


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:100]!r} is no list")
    return value


def proposed_json(proposed: ProposedCommit, *, with_content: bool = True) -> dict[str, Any]:
    """A proposed commit as JSON; the content of a staged one is left out.

    Raises:
        InvalidOptionError: it is no text.
    """
    body: dict[str, Any] = {
        "version": proposed.version,
        "transaction_id": proposed.transaction_id,
        "in_commit_timestamp": proposed.in_commit_timestamp,
    }
    if proposed.staged_file is not None:
        staged = {"size": proposed.size, "modified_ms": proposed.modified_ms}
        return body | {"staged_file": proposed.staged_file, **staged}
    if with_content:
        try:
            body["content"] = proposed.content.decode()
        except UnicodeDecodeError as error:
            raise InvalidOptionError(f"a commit is text in UTF-8, and this is not: {error}") from (
                error
            )
    return body


def proposed_from(body: Mapping[str, Any]) -> ProposedCommit:
    """A proposed commit from JSON whose types have been checked."""
    content = str(body.get("content") or "").encode()
    return ProposedCommit(
        body["version"],
        content,
        body["in_commit_timestamp"],
        body["transaction_id"],
        body.get("staged_file"),
        len(content) or body.get("size", 0),
        body.get("modified_ms", 0),
    )
