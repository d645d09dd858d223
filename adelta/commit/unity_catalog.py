"""Unity Catalog as the catalog of a table: its REST API for Delta clients (UC Delta API 1.0).

A commit is ratified by the update of a table that adds it, under the condition that the table is
still the same one; the latest version and the commits that are not published yet come with the
table's description. Unity Catalog keeps ten unpublished commits at most.

With the commit it is told what the commit changes of its own description of the table: schema,
partition columns, properties, comment, protocol, clustering and the highest row id. What of the
description differs is seen by what the catalog said when it was at the version before; should it
have changed since, so has the version, and the commit is refused.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import anyio
import orjson

from adelta._chance import uniform
from adelta._dataclasses import dataclass
from adelta._secrets import without_secrets
from adelta.commit.catalog import CatalogClient
from adelta.commit.owner import CommitResponse, RatifiedCommit, RatifiedCommits
from adelta.commit.unity_updates import (
    TOLD_DOMAINS,
    leading_actions,
    told_domain,
    told_protocol,
    updates_of_metadata,
)
from adelta.errors import (
    AdeltaError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    PermissionDeniedError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
    UnsupportedFeatureError,
)
from adelta.kernel.table_features import CATALOG_MANAGED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adelta.commit.owner import ProposedCommit
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol as TableProtocol
    from adelta.storage.json_http import JsonAnswer

__all__ = ["StagedTable", "UnityCatalogClient"]

_API = "/api/2.1/unity-catalog"
_BUSY = 6  # updates that are sent, of which all but the last met somebody else's
_BUSY_KINDS = ("UpdateRequirementConflictException", "TooManyRequestsException")
_LONGEST_PAUSE = 0.2
_CREDENTIALS = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
}


_MANAGED = f"delta.feature.{CATALOG_MANAGED.name}"


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A place that the catalog has set aside for a table that does not exist yet.

    `properties` are those that the table has to be created with, and `storage_options` open the
    place for writing.
    """

    table_id: str
    location: str
    properties: Mapping[str, str] = field(hash=False)
    storage_options: Mapping[str, str] = field(repr=False, hash=False)


class FirstVersion(Protocol):
    """What is told of a new table: a `Snapshot` of it."""

    @property
    def protocol(self) -> TableProtocol:
        """Which clients may read and write it."""
        ...

    @property
    def metadata(self) -> Metadata:
        """Its schema and properties."""
        ...

    @property
    def timestamp(self) -> datetime:
        """When it was made."""
        ...

    async def domain_metadata(self) -> Mapping[str, str]:
        """The configuration of every domain, by its name."""
        ...


class UnityCatalogClient(CatalogClient):
    """The client of a Unity Catalog for the table `name`.

    It opens no connection before it is needed, may be shared, and can be pickled.
    """

    def __init__(
        self,
        endpoint: str,
        name: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        permits_maintenance: bool = False,
    ) -> None:
        """`endpoint` is the server's address, `name` is ``catalog.schema.table``.

        `token` is sent as the bearer token of every request; each may take `timeout` seconds. A
        catalog cleans up and optimizes its tables by itself, unless `permits_maintenance` says that
        it leaves that to its clients, as the one of ``adelta serve`` does.

        Raises:
            InvalidOptionError: the address or the name is not one.
        """
        from adelta.storage.json_http import JsonServer  # with it comes aiohttp

        parts = name.split(".")
        if len(parts) != 3 or not all(parts):
            raise InvalidOptionError(f"{name!r} is not the name of a table: catalog.schema.table")
        self._recipe = (endpoint, name, token, timeout, permits_maintenance)
        self._permits_maintenance = permits_maintenance
        self._name = name
        catalog, schema, self._table = parts
        self._schema = f"delta/v1/catalogs/{quote(catalog, '')}/schemas/{quote(schema, '')}"
        base = endpoint.rstrip("/").removesuffix(_API) + _API
        self._server = JsonServer(base, token=token, timeout=timeout)
        self._table_id: str | None = None
        self._description: Mapping[str, Any] = {}
        self._described_at: int | None = None  # the latest version, when the catalog was asked

    def __repr__(self) -> str:
        return f"UnityCatalogClient({without_secrets(self._recipe[0])!r}, {self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The recipe that makes the same client elsewhere."""
        return (_made, self._recipe)

    @property
    def takes_inline_commits(self) -> bool:
        """Commits are staged."""
        return False

    @property
    def permits_maintenance(self) -> bool:
        """Whether the catalog leaves it to its clients to clean up, by what the user says."""
        return self._permits_maintenance

    # ---------------------------------------------------------------------------------- commits

    async def get_ratified_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """The commits of the range that are not published, and the latest version of the table.

        Raises:
            TableNotFoundError: the catalog has no such table, or not yet.
            InvalidTableError: the answer is not what the API says.
            StorageError: the catalog refused or failed.
        """
        return self._ratified(await self._load(), start_version, end_version)

    def _ratified(
        self, loaded: Mapping[str, Any], start: int | None, end: int | None
    ) -> RatifiedCommits:
        try:
            latest = int(loaded["latest-table-version"])
            commits = sorted(
                (
                    RatifiedCommit(
                        int(commit["version"]),
                        str(commit["file-name"]),
                        size=int(commit["file-size"]),
                        modified_ms=int(commit["file-modification-timestamp"]),
                    )
                    for commit in loaded.get("commits") or ()
                ),
                key=lambda commit: commit.version,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTableError(
                f"the catalog describes {self._name} in a way that is not its API's: {error!r}"
            ) from error
        first, last = start or 0, latest if end is None else end
        return RatifiedCommits(latest, tuple(c for c in commits if first <= c.version <= last))

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, if its version is the next one.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            ThrottledError: too many commits are waiting to be published.
            TableNotFoundError: the catalog has no such table any more.
            StorageError: the catalog refused; nothing was ratified.
        """
        if self._table_id is None:
            await self._load()
        added = {
            "version": proposed.version,
            "timestamp": proposed.in_commit_timestamp,
            "file-name": proposed.staged_file,
            "file-size": proposed.size,
            "file-modification-timestamp": proposed.modified_ms,
        }
        updates: list[dict[str, Any]] = [{"action": "add-commit", "commit": added}]
        if proposed.published_version is not None:
            updates.append(
                {
                    "action": "set-latest-backfilled-version",
                    "latest-published-version": proposed.published_version,
                }
            )
        updates += await self._changes(proposed)
        same = {"type": "assert-table-uuid", "uuid": self._table_id}
        answer = await self._post({"requirements": [same], "updates": updates})
        if answer.is_fine:
            return CommitResponse(ratified=True)
        if _kind(answer) == "CommitVersionConflictException":
            return CommitResponse(ratified=False)
        if answer.status >= 500 and answer.status != 501:
            raise CommitOutcomeUnknownError(
                f"the catalog does not say whether version {proposed.version} of {self._name} was "
                f"committed: {_said(answer)}"
            )
        raise self._refused(answer)

    async def _post(self, body: Mapping[str, Any]) -> JsonAnswer:
        """The answer to an update, which is sent again while others keep the table busy."""
        for attempt in range(1, _BUSY + 1):
            answer = await self._server.post(self._path, body)
            if _kind(answer) not in _BUSY_KINDS or attempt == _BUSY:
                break
            await self._load()  # the table may have become another one
            await anyio.sleep(uniform(0, _LONGEST_PAUSE * attempt))
        return answer

    async def _changes(self, proposed: ProposedCommit) -> list[dict[str, Any]]:
        """The updates of the catalog's description that go with a commit."""
        updates: list[dict[str, Any]] = []
        domains: dict[str, Any] = {}
        removed: list[str] = []
        for name, action in leading_actions(proposed.content):
            if name == "metaData":
                if self._described_at != proposed.version - 1:
                    await self._load()
                updates += updates_of_metadata(self._description, action)
            elif name == "protocol":
                updates.append({"action": "set-protocol", "protocol": told_protocol(action)})
            elif name == "domainMetadata" and action["domain"] in TOLD_DOMAINS:
                if action.get("removed"):
                    removed.append(action["domain"])
                else:
                    domains |= told_domain(action["domain"], action["configuration"])
        if domains:
            updates.append({"action": "set-domain-metadata", "updates": domains})
        if removed:
            updates.append({"action": "remove-domain-metadata", "domains": removed})
        return updates

    # ----------------------------------------------------------------------------------- tables

    async def location(self) -> str:
        """Where the table lies: the address to open it at.

        Raises:
            TableNotFoundError: the catalog has no such table.
            StorageError: the catalog refused or failed.
        """
        return self._text((await self._load())["metadata"], "location")

    @property
    def said_to_be_managed(self) -> bool:
        """Whether the catalog's latest description says that commits go through it.

        One that says nothing of it, or has not been asked for yet, leaves that open.
        """
        properties = self._description.get("properties") or {}
        return bool(properties.get(_MANAGED) == "supported")

    async def storage_options(self, *, write: bool = False) -> dict[str, str]:
        """Options that open the table's place, to read or to write, until they expire.

        They are empty where the catalog hands out no credentials for the place.

        Raises:
            TableNotFoundError: the catalog has no such table.
            UnsupportedFeatureError: the credentials are for storage that adelta does not have.
            StorageError: the catalog refused or failed.
        """
        wanted = {"operation": "READ_WRITE" if write else "READ"}
        answer = await self._server.get(f"{self._path}/credentials", wanted)
        if not answer.is_fine:
            raise self._refused(answer)
        return _options(answer.body)

    async def stage_table(self) -> StagedTable:
        """Ask for a place for a new table, to create it there.

        Raises:
            StorageError: the catalog refused or failed.
        """
        body = await self._created("staging-tables", {"name": self._table})
        protocol = _object(body, "required-protocol")
        features = {
            str(name)
            for key in ("reader-features", "writer-features")
            for name in _array(protocol, key)
        }
        asked = {f"delta.feature.{name}": "supported" for name in sorted(features)}
        required = _object(body, "required-properties").items()
        asked |= {key: str(value) for key, value in required if value is not None}
        table_id, location = self._text(body, "table-id"), self._text(body, "location")
        return StagedTable(table_id, location, asked, _options(body))

    async def register_table(self, staged: StagedTable, first: FirstVersion) -> None:
        """Give the table that has been created at a staged place its name.

        `first` is the snapshot of its version 0.

        Raises:
            StorageError: the catalog refused or failed.
        """
        metadata, protocol = first.metadata, first.protocol
        body: dict[str, Any] = {
            "name": self._table,
            "location": staged.location,
            "table-type": "MANAGED",
            "columns": orjson.loads(metadata.schema_string),
            "partition-columns": list(metadata.partition_columns),
            "protocol": told_protocol(protocol.to_json()),
            "properties": dict(metadata.configuration),
            "last-commit-timestamp-ms": round(first.timestamp.timestamp() * 1000),
        }
        if metadata.description is not None:
            body["comment"] = metadata.description
        domains = await first.domain_metadata()
        for name in domains.keys() & TOLD_DOMAINS.keys():
            body.setdefault("domain-metadata", {}).update(told_domain(name, domains[name]))
        await self._created("tables", body)
        self._table_id = staged.table_id

    async def aclose(self) -> None:
        """Give back connections. Later calls make new ones."""
        await self._server.aclose()

    # ----------------------------------------------------------------------------------- inside

    @property
    def _path(self) -> str:
        return f"{self._schema}/tables/{quote(self._table, '')}"

    async def _load(self) -> Mapping[str, Any]:
        """The table's description. Raises: TableNotFoundError, StorageError."""
        answer = await self._server.get(self._path)
        if not answer.is_fine:
            raise self._refused(answer)
        metadata = answer.body.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("table-uuid") is None:
            raise StorageError(
                f"{self._server!r} does not describe {self._name} as Unity Catalog does; check "
                "its address"
            )
        _object(metadata, "properties"), _array(metadata, "partition-columns")
        table_id = str(metadata["table-uuid"])
        if self._table_id not in (None, table_id):
            raise TableNotFoundError(
                f"{self._name} is another table than it was: it has been dropped and created "
                "again; open it anew"
            )
        self._table_id, self._description = table_id, metadata
        self._described_at = answer.body.get("latest-table-version")
        return answer.body

    async def _created(self, what: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer = await self._server.post(f"{self._schema}/{what}", body)
        except CommitOutcomeUnknownError as error:
            raise StorageError(f"nobody can say whether {self._name} was made: {error}") from error
        if not answer.is_fine:
            raise self._refused(answer)
        return answer.body

    def _text(self, body: Mapping[str, Any], key: str) -> str:
        """One text of an answer. Raises: StorageError."""
        text = body.get(key)
        if not isinstance(text, str):
            raise StorageError(f"{self._server!r} says of {self._name} no {key}")
        return text

    def _refused(self, answer: JsonAnswer) -> AdeltaError:
        """The error that a refusal is raised as."""
        kind, text = _kind(answer), f"the catalog refuses {self._name}: {_said(answer)}"
        if kind in ("NotAuthorizedException", "PermissionDeniedException"):
            return PermissionDeniedError(f"{text}; check the token and what it allows")
        if kind in ("NoSuchTableException", "NoSuchSchemaException", "NoSuchCatalogException"):
            return TableNotFoundError(text)
        if answer.status == 429:
            return ThrottledError(text)
        return StorageError(text)


def _made(
    endpoint: str, name: str, token: str | None, timeout: float, permits: bool
) -> UnityCatalogClient:
    return UnityCatalogClient(
        endpoint, name, token=token, timeout=timeout, permits_maintenance=permits
    )


def _kind(answer: JsonAnswer) -> str:
    error = answer.body.get("error")
    kind = str(error.get("type", "")) if isinstance(error, dict) else ""
    named = {401: "NotAuthorizedException", 403: "PermissionDeniedException"}
    return kind or named.get(answer.status, "")


def _said(answer: JsonAnswer) -> str:
    error = answer.body.get("error")
    text = error.get("message") if isinstance(error, dict) else answer.body.get("text")
    return f"{answer.status} {_kind(answer)} {str(text or '')[:300]}".strip()


def _options(body: Mapping[str, Any]) -> dict[str, str]:
    """What credentials mean as storage options; those of the longest prefix.

    Raises:
        UnsupportedFeatureError: they are for storage that adelta does not have.
    """
    given = [each for each in _array(body, "storage-credentials") if isinstance(each, dict)]
    best = max(given, key=lambda each: len(str(each.get("prefix", ""))), default={})
    config = {key: text for key, text in _object(best, "config").items() if text is not None}
    unknown = sorted(config.keys() - _CREDENTIALS.keys())
    if unknown:
        raise UnsupportedFeatureError(
            f"the catalog hands out credentials of the kind {unknown[0]}, for storage that adelta "
            "does not have"
        )
    return {_CREDENTIALS[key]: str(value) for key, value in config.items()}


def _object(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object in an answer, empty where it is left out. Raises: StorageError."""
    found = body.get(key)
    if found is not None and not isinstance(found, dict):
        raise StorageError(f"the catalog answers with a {key} that is not its API's")
    return found or {}


def _array(body: Mapping[str, Any], key: str) -> list[Any]:
    """A list in an answer, empty where it is left out. Raises: StorageError."""
    found = body.get(key)
    if found is not None and not isinstance(found, list):
        raise StorageError(f"the catalog answers with {key} that are not its API's")
    return found or []
