"""Unity Catalog's REST paths for Delta clients (UC Delta API 1.0), answered by the ledger.

So tables of the feature `catalogManaged` have a catalog without a server of Unity Catalog's. Their
commits are staged by the client. They may be published by it, as the protocol has it, and are
backfilled by the owner all the same, which does not take the client's word for what is published.
A table's place lies below the managed root of the service; it hands out no credentials.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from adelta._chance import new_uuid
from adelta.commit.owner import ProposedCommit
from adelta.errors import (
    CommitConflictError,
    InvalidOptionError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.kernel.table_features import (
    CATALOG_MANAGED,
    IN_COMMIT_TIMESTAMP,
    IN_COMMIT_TIMESTAMPS_ENABLED,
)
from adelta.kernel.table_properties import FEATURE_PREFIX
from adelta.owner.access import Right
from adelta.owner.catalog_names import StaleDescriptionError
from adelta.owner.limits import RefusedError
from adelta.owner.owned_table import STAGED_FOLDER, State
from adelta.owner.requests import objects_of, parsed
from adelta.owner.table_key import TableKey, check_staged_file, check_version, root_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.owner.access import Grant
    from adelta.owner.catalog_names import NamedTable
    from adelta.owner.parts import Parts
    from adelta.owner.service import Answer

__all__ = ["UNITY_NAMES", "UnityPaths"]

_ROOT = "/api/2.1/unity-catalog"
_DELTA = f"{_ROOT}/delta/v1"
_SCHEMA = f"{_DELTA}/catalogs/{{catalog}}/schemas/{{schema}}"
_TABLE = f"{_SCHEMA}/tables/{{table}}"
_ID_PROPERTY = "io.unitycatalog.tableId"
_LONGEST_NAME = 255
_LONGEST_DESCRIPTION = 16 << 20  # characters; it is read and written whole
_SAME_TABLE, _SAME_ETAG = "assert-table-uuid", "assert-etag"
_NO_DESCRIPTION = ""  # no table has it

UNITY_NAMES = {
    "NotAuthenticated": "NotAuthorizedException",
    "PermissionDenied": "PermissionDeniedException",
    "TableNotFound": "NoSuchTableException",
    "Conflict": "AlreadyExistsException",
    "InvalidRequest": "InvalidParameterValueException",
    "InvalidVersion": "InvalidParameterValueException",
    "TooManyRequests": "TooManyRequestsException",
    "NotImplemented": "NotImplementedException",
    "CommitOutcomeUnknown": "CommitStateUnknownException",
    "Unavailable": "InternalServerErrorException",
}
"""The names of errors in Unity Catalog's API, by those in the service's own."""


class UnityPaths:
    """Answers the requests of clients of Unity Catalog."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[tuple[str, str, Answer]]:
        """Method, path and answer of each request."""
        return [
            ("POST", f"{_SCHEMA}/staging-tables", self._stage),
            ("POST", f"{_SCHEMA}/tables", self._create),
            ("GET", _TABLE, self._load),
            ("POST", _TABLE, self._update),
            ("DELETE", _TABLE, self._drop),
            ("HEAD", _TABLE, self._exists),
            ("GET", f"{_TABLE}/credentials", self._credentials),
            ("GET", f"{_DELTA}/config", self._config),
            ("*", f"{_ROOT}/{{rest:.*}}", self._nothing),
        ]

    async def _config(self, request: web.Request, *_: object) -> Mapping[str, Any]:
        """What there is of the API, in its one version."""
        asked = request.query.get("protocol-versions", "")
        if not any(one.strip().startswith("1.") for one in asked.split(",")):
            raise InvalidOptionError("the service speaks the version 1.0 of the UC Delta API")
        served = (one for one in self.routes() if one[0] != "*" and one[1] != f"{_DELTA}/config")
        told = [f"{method} {path.replace(_DELTA, '/v1')}" for method, path, _ in served]
        return {"endpoints": told, "protocol-version": "1.0"}

    async def _nothing(self, request: web.Request, *_: object) -> Mapping[str, Any]:
        raise RefusedError(
            501, "NotImplemented", f"the service has no {request.method} of that path"
        )

    # ------------------------------------------------------------------------------------ tables

    async def _stage(self, request: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        name = _name(request, parsed(data).get("name"))
        root = self._parts.settings.managed_root
        if not root:
            raise InvalidOptionError(
                "this service has no place for tables of the catalog: start it with a managed root"
            )
        table_id = str(new_uuid())
        table = TableKey.of(f"{root.rstrip('/')}/{table_id}", table_id)
        grant.check(table.uri, Right.OWN)
        self._parts.logs.of(table.uri)
        await self._parts.names.stage_name(name, table, STAGED_FOLDER)
        features = [CATALOG_MANAGED.name]
        return {
            "table-id": table_id,
            "table-type": "MANAGED",
            "location": _location(table.uri),
            "storage-credentials": [],
            "required-protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": features,
                "writer-features": [*features, IN_COMMIT_TIMESTAMP.name],
            },
            "required-properties": {
                IN_COMMIT_TIMESTAMPS_ENABLED.key: "true",
                _ID_PROPERTY: table_id,
            },
            "suggested-properties": {},
        }

    async def _create(self, request: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body = dict(parsed(data))
        name = _name(request, body.get("name"))
        found = await self._parts.names.find_named(name)
        if found is None:
            raise TableNotFoundError(f"no place has been set aside for a table {name}; stage it")
        table, description = found.table, _description(body)
        grant.check(table.uri, Right.OWN)
        if table.state != State.PROMISED:
            if found.description == description:  # asked again, since the answer was lost
                return _described(found)
            raise CommitConflictError(f"there is a table {name} already; choose another name")
        protocol, properties = _checked_protocol(body.get("protocol")), body.get("properties")
        if not isinstance(properties, dict):
            raise InvalidOptionError("a table has properties")
        managed = CATALOG_MANAGED.name in (protocol.get("writer-features") or ())
        if not managed or properties.get(_ID_PROPERTY) != table.table_id:
            raise InvalidOptionError(
                f"the table {name} has to support {CATALOG_MANAGED.name} and to have the property "
                f"{_ID_PROPERTY}={table.table_id}"
            )
        if root_of(body.get("location")) != table.uri:
            raise InvalidOptionError(f"the place of {name} is {_location(table.uri)}")
        if not await self._parts.logs.of(table.uri).exists(0):
            raise InvalidOptionError(f"{name} has no version 0 at {_location(table.uri)}")
        key = TableKey(table.uri, table.table_id)
        if not await self._parts.names.own_named(key, name, description):
            raise CommitConflictError(
                f"another place has been set aside for a table {name} meanwhile; stage it anew"
            )
        return _described(await self._named(name))

    async def _load(self, request: web.Request, grant: Grant, _: bytes) -> Mapping[str, Any]:
        found = await self._named(_name(request))
        grant.check(found.table.uri, Right.READ)
        return _described(found)

    async def _exists(self, request: web.Request, grant: Grant, _: bytes) -> web.Response:
        await self._load(request, grant, _)
        return web.Response(status=204)

    async def _drop(self, request: web.Request, grant: Grant, _: bytes) -> web.Response:
        """Forget a table; its files stay, for whoever may delete them."""
        name = _name(request)
        table = (await self._named(name)).table
        grant.check(table.uri, Right.OWN)
        if not await self._parts.names.drop(TableKey(table.uri, table.table_id)):
            raise TableNotFoundError(f"there is no table {name}")
        return web.Response(status=204)

    async def _credentials(self, request: web.Request, grant: Grant, _: bytes) -> Mapping[str, Any]:
        found = await self._named(_name(request))
        writes = request.query.get("operation") == "READ_WRITE"
        grant.check(found.table.uri, Right.WRITE if writes else Right.READ)
        return {"storage-credentials": []}

    async def _named(self, name: str) -> NamedTable:
        found = await self._parts.names.find_named(name)
        if found is None or found.table.state == State.PROMISED:
            raise TableNotFoundError(f"there is no table {name}")
        return found

    # ----------------------------------------------------------------------------------- commits

    async def _update(self, request: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body, name = parsed(data), _name(request)
        found = await self._named(name)
        grant.check(found.table.uri, Right.WRITE)
        etag = _asserted_etag(objects_of(body, "requirements"), found)
        asked = objects_of(body, "updates")
        updates = {str(each.get("action")): each for each in asked}
        if len(updates) < len(asked):
            raise InvalidOptionError("an update of each kind is asked for once at most")
        after = _updated(found.description, updates)
        before = found.description if etag in (None, _etag(found)) else _NO_DESCRIPTION
        if "add-commit" in updates:
            changes = (before, after) if etag is not None or after != before else None
            await self._commit(found, updates["add-commit"], changes)
        elif after != before:
            at = None if etag is None else found.table.latest
            if not await self._parts.names.describe(found.table.table_key, before, after, at):
                raise _stale(name)
        return _described(await self._named(name))

    async def _commit(
        self, found: NamedTable, update: Mapping[str, Any], changes: tuple[str, str] | None
    ) -> None:
        table = TableKey(found.table.uri, found.table.table_id)
        proposed = _proposed(update.get("commit"))
        commits = self._parts.commits
        try:
            response = await commits.commit(table, proposed, changes, folder=STAGED_FOLDER)
        except StaleDescriptionError:
            raise _stale(found.table.name or "") from None
        except ThrottledError as error:
            raise RefusedError(429, "ResourceExhaustedException", str(error), wait=1) from None
        if not response.ratified:
            raise RefusedError(
                409, "CommitVersionConflictException", f"version {proposed.version} is taken"
            )


def _name(request: web.Request, table: object = None) -> str:
    """The full name of the table that a request is about. Raises: InvalidOptionError."""
    names = request.match_info
    parts = (names["catalog"], names["schema"], names.get("table", table))
    texts = [part for part in parts if isinstance(part, str) and part and part.isprintable()]
    if len(texts) < len(parts) or any("." in t or len(t) > _LONGEST_NAME for t in texts):
        raise InvalidOptionError(
            "a table is named by catalog, schema and table, each of 1 to 255 printable characters "
            "without dots"
        )
    return ".".join(texts)


def _location(uri: str) -> str:
    """A root as a URI."""
    from pathlib import Path

    return Path(uri).as_uri() if uri.startswith("/") else uri


def _proposed(commit: object) -> ProposedCommit:
    """A staged commit. Its file's name is what tells it from others. Raises: InvalidOptionError."""
    if not isinstance(commit, dict):
        raise InvalidOptionError("add-commit has no commit")
    version = check_version(commit.get("version"))
    name = check_staged_file(commit.get("file-name"), version)
    return ProposedCommit(
        version,
        b"",
        check_version(commit.get("timestamp"), "timestamp"),
        name,
        name,
        check_version(commit.get("file-size"), "file-size"),
        check_version(commit.get("file-modification-timestamp"), "file-modification-timestamp"),
    )


def _asserted_etag(requirements: list[Mapping[str, Any]], found: NamedTable) -> str | None:
    """The etag that an update is for; None where it is for any.

    Raises:
        InvalidOptionError: the requirements are none that an update has.
        RefusedError: it is for another table.
    """
    asserted = {str(each.get("type")): each for each in requirements}
    if not {_SAME_TABLE} <= asserted.keys() <= {_SAME_TABLE, _SAME_ETAG}:
        raise InvalidOptionError(f"an update requires {_SAME_TABLE}, and may require {_SAME_ETAG}")
    if len(asserted) < len(requirements):
        raise InvalidOptionError("an update requires each thing once at most")
    if asserted[_SAME_TABLE].get("uuid") != found.table.table_id:
        raise RefusedError(
            409, "UpdateRequirementConflictException", f"{found.table.name} is another table"
        )
    return str(asserted[_SAME_ETAG].get("etag")) if _SAME_ETAG in asserted else None


def _etag(found: NamedTable) -> str:
    """What tells a table as it is from what it is after any commit or change of its description."""
    digest = hashlib.blake2b(found.description.encode(), digest_size=8).hexdigest()
    return f"{found.table.latest}-{digest}"


def _stale(name: str) -> RefusedError:
    return RefusedError(
        409, "UpdateRequirementConflictException", f"{name} has been described anew; try again"
    )


def _checked_protocol(protocol: object) -> dict[str, Any]:
    """A protocol that a table can be told to have. Raises: InvalidOptionError."""
    if not isinstance(protocol, dict):
        raise InvalidOptionError("a table has a protocol, an object")
    for key in ("reader-features", "writer-features"):
        names = protocol.get(key)
        if names is None:
            continue
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidOptionError(f"{key} of a protocol are a list of names")
    return protocol


def _description(told: Mapping[str, Any]) -> str:
    """What is kept of a table. Raises: InvalidOptionError."""
    kinds: dict[str, type] = {"columns": dict, "partition-columns": list, "domain-metadata": dict}
    for key, kind in kinds.items():
        if not isinstance(told.get(key) or kind(), kind):
            raise InvalidOptionError(f"{key} of a table are not what the API says")
    text = orjson.dumps(told).decode()
    if len(text) > _LONGEST_DESCRIPTION:
        raise InvalidOptionError(
            f"the description of a table may have {_LONGEST_DESCRIPTION:,} characters at most"
        )
    return text


_OF_THE_SAME = (
    ("set-properties", "remove-properties"),
    ("set-domain-metadata", "remove-domain-metadata"),
)


def _named_by(update: Mapping[str, Any] | None) -> set[str]:
    """The properties or domains that an update sets or removes."""
    found = [(update or {}).get(key) for key in ("updates", "removals", "domains")]
    return {str(name) for names in found if isinstance(names, dict | list) for name in names}


def _updated(description: str, updates: Mapping[str, Mapping[str, Any]]) -> str:
    """A description of a table after updates of it. Raises: InvalidOptionError."""
    told: dict[str, Any] = orjson.loads(description)
    for one, other in _OF_THE_SAME:
        both = _named_by(updates.get(one)) & _named_by(updates.get(other))
        if both:
            raise InvalidOptionError(f"{one} and {other} are both about {min(both)[:100]!r}")
    properties = dict(told.get("properties") or {})
    domains = dict(told.get("domain-metadata") or {})
    try:
        for action, update in updates.items():
            match action:
                case "set-columns":
                    told["columns"] = update["columns"]
                case "set-partition-columns":
                    told["partition-columns"] = [str(name) for name in update["partition-columns"]]
                case "set-table-comment":
                    told["comment"] = str(update["comment"])
                case "set-properties":
                    properties |= {str(k): str(v) for k, v in update["updates"].items()}
                case "remove-properties":
                    for key in update["removals"]:
                        properties.pop(key, None)
                case "set-protocol":
                    told["protocol"] = _checked_protocol(update["protocol"])
                case "set-domain-metadata":
                    domains |= dict(update["updates"])
                case "remove-domain-metadata":
                    for domain in update["domains"]:
                        domains.pop(domain, None)
                case "add-commit" | "set-latest-backfilled-version":
                    pass
                case _:
                    raise InvalidOptionError(f"there is no update {action[:100]!r}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidOptionError(f"an update is not what the API says: {error!r}") from error
    if properties != (told.get("properties") or {}):
        told["properties"] = properties
    if domains != (told.get("domain-metadata") or {}):
        told["domain-metadata"] = domains
    return description if orjson.loads(description) == told else _description(told)


def _described(found: NamedTable) -> dict[str, Any]:
    """What a table is told to be."""
    told, table = orjson.loads(found.description), found.table
    protocol = told.get("protocol") or {}
    features = {*(protocol.get("reader-features") or ()), *(protocol.get("writer-features") or ())}
    derived = {
        "delta.minReaderVersion": str(protocol.get("min-reader-version", 3)),
        "delta.minWriterVersion": str(protocol.get("min-writer-version", 7)),
        **{f"{FEATURE_PREFIX}{name}": "supported" for name in sorted(features)},
    }
    return {
        "metadata": {
            "etag": _etag(found),
            "table-type": "MANAGED",
            "table-uuid": table.table_id,
            "location": _location(table.uri),
            "created-time": found.created_ms,
            "updated-time": found.created_ms,
            "columns": told.get("columns"),
            "partition-columns": told.get("partition-columns") or [],
            "comment": told.get("comment"),
            "properties": {**(told.get("properties") or {}), **derived},
        },
        "commits": [
            {
                "version": commit.version,
                "timestamp": commit.timestamp_ms,
                "file-name": commit.staged_file,
                "file-size": commit.size,
                "file-modification-timestamp": commit.modified_ms,
            }
            for commit in reversed(found.commits)
        ],
        "latest-table-version": table.latest,
    }
