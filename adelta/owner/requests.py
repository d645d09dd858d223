"""What requests say, proved: every value that a client sends goes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adelta.commit.owner_wire import proposed_from
from adelta.errors import InvalidOptionError
from adelta.owner.table_key import TableKey, check_staged_file, check_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.commit.owner import ProposedCommit

__all__ = [
    "asked_number",
    "asked_table",
    "check_content",
    "objects_of",
    "parsed",
    "proposed_of",
    "table_of",
    "version_of",
]

_MOST_TOGETHER = 256
_LONGEST_ID = 256


def parsed(data: bytes) -> Mapping[str, Any]:
    """The object that a body is. Raises: InvalidOptionError."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidOptionError(f"the request is no JSON: {error}") from error
    return _object(body, "the request")


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidOptionError(f"{what} is no object in JSON")
    return value


def objects_of(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A list of objects in a request. Raises: InvalidOptionError."""
    found = body.get(key)
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST_TOGETHER:
        raise InvalidOptionError(
            f"{key} is no list of 1 to {_MOST_TOGETHER} objects: an owner commits to no more "
            "tables together, nor tells of them; take fewer at a time"
        )
    return [_object(each, f"each of {key}") for each in found]


def table_of(body: Mapping[str, Any]) -> TableKey:
    """The table that a request is about. Raises: InvalidOptionError."""
    table = _object(body.get("table"), "table")
    return TableKey.of(table.get("uri"), table.get("table_id"))


def asked_table(query: Mapping[str, str]) -> TableKey:
    """The table that a query is about. Raises: InvalidOptionError."""
    return TableKey.of(query.get("uri"), query.get("table_id"))


def asked_number(query: Mapping[str, str], key: str) -> int | None:
    """A version in a query, None where it has none. Raises: InvalidOptionError."""
    text = query.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise InvalidOptionError(f"{key} is {text[:100]!r}; give a whole number of 0 or more")
    return check_version(int(text), key)


def version_of(body: Mapping[str, Any], key: str = "version") -> int | None:
    """A version in a request, None where it has none. Raises: InvalidOptionError."""
    found = body.get(key)
    return None if found is None else check_version(found, key)


def proposed_of(body: Mapping[str, Any], *, with_content: bool = True) -> ProposedCommit:
    """The commit that a request proposes: staged, or with its content, unless none is asked for.

    Raises:
        InvalidOptionError: it is no commit.
    """
    commit = _object(body.get("commit"), "commit")
    version = check_version(commit.get("version"))
    check_version(commit.get("in_commit_timestamp"), "in_commit_timestamp")
    transaction_id = commit.get("transaction_id")
    if (
        not isinstance(transaction_id, str)
        or not transaction_id.isprintable()
        or not 1 <= len(transaction_id) <= _LONGEST_ID
    ):
        raise InvalidOptionError("transaction_id is no text of 1 to 256 characters")
    staged, content = commit.get("staged_file"), commit.get("content")
    if staged is not None:
        check_staged_file(staged, version)
        check_version(commit.get("size"), "size")
        check_version(commit.get("modified_ms"), "modified_ms")
        if content is not None:
            raise InvalidOptionError("a commit is staged or has a content, and not both")
    elif with_content and (not isinstance(content, str) or not content):
        raise InvalidOptionError("a commit is staged, or its content is a text")
    return proposed_from(commit)


def check_content(proposed: ProposedCommit) -> None:
    """Refuse a commit that no reader could read, or that is not the one that it is said to be.

    Raises:
        InvalidOptionError: a line of it is no action, or it has another transaction's id.
    """
    info: object = None
    try:
        for line in proposed.content.splitlines():
            action = orjson.loads(line) if line else {}
            if not isinstance(action, dict):
                raise InvalidOptionError("a line of the commit is no action")
            info = action.get("commitInfo", info)
    except orjson.JSONDecodeError as error:
        raise InvalidOptionError(f"a line of the commit is no JSON: {error}") from error
    said = (info.get("txnId"), info.get("inCommitTimestamp")) if isinstance(info, dict) else ()
    if said != (proposed.transaction_id, proposed.in_commit_timestamp):
        raise InvalidOptionError(
            "the commitInfo of the commit lacks the txnId and inCommitTimestamp that it is "
            "proposed with"
        )
