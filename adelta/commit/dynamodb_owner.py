"""DynamoDB as the commit owner of tables: Delta Spark's DynamoDBCommitCoordinatorClient.

An item for each table, under an id that the table keeps in its properties
(``delta.coordinatedCommits.tableConf-preview``); its attributes and the conditions of its updates
are Delta Spark's, so that adelta and Spark commit to one table:

* ``tableVersion``: the latest version, and before any was ratified here, the one that was to come
  into the log by registering the table; ``hasAcceptedCommits`` says which of the two it is;
* ``commits``: those that may not have been published, each with ``version``, ``timestamp`` (in
  commit, ms), ``fsName``, ``fsLength`` and ``fsTimestamp`` (ms);
* ``acceptingCommits``: false since the table has gone back to the filesystem;
* ``path``: where the table is, as Hadoop calls that, and ``schemaVersion``, 1.

A version is ratified by an update under the condition that the one before it is the latest. The
table says which DynamoDB table that is and where (``dynamoDBTableName``, ``dynamoDBEndpoint``);
keys and region are storage options, as for S3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta._chance import new_uuid
from adelta._dataclasses import dataclass
from adelta._secrets import without_secrets
from adelta.commit.owner import (
    CommitOwnerClient,
    CommitResponse,
    RatifiedCommit,
    RatifiedCommits,
)
from adelta.commit.owner_registry import OwnerNotNamedError
from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.storage.dynamodb import DynamoTable
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.given_options import GivenOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.commit.owner import ManagedTable, ProposedCommit
    from adelta.storage.dynamodb import Item, Value

__all__ = ["DynamoDbOwnerClient", "dynamodb_owner"]

_TABLE_NAME = "dynamoDBTableName"
_ENDPOINT = "dynamoDBEndpoint"
_ID = "tableId"
_SCHEMA = 1
_AMAZON = re.compile(
    r"https://dynamodb(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)(?::443)?"
)


def dynamodb_owner(table: ManagedTable, storage_options: Mapping[str, str]) -> DynamoDbOwnerClient:
    """The client of the DynamoDB table that `table` names.

    Requests are signed for no endpoint but Amazon's own and the one that the storage options name:
    whoever may write to the table has chosen that which it names.

    Raises:
        OwnerNotNamedError: the table names another endpoint than these.
        InvalidOptionError: the table does not name one, or the options do not go with it.
    """
    missing = [key for key in (_TABLE_NAME, _ENDPOINT) if not table.conf.get(key)]
    if missing:
        raise InvalidOptionError(
            f"{table.uri} is to have the commit owner dynamodb, and its configuration lacks "
            f"{' and '.join(missing)}"
        )
    endpoint = table.conf[_ENDPOINT]
    if "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    options = {**storage_options, "delta_dynamo_table_name": table.conf[_TABLE_NAME]}
    region = _AMAZON.fullmatch(endpoint.rstrip("/"))
    if region is not None:
        options.setdefault("aws_region_dynamodb", region[1])
    if GivenOptions(storage_options).text("endpoint_url_dynamodb") is None:
        if region is None:
            shown = without_secrets(endpoint)[:300]
            raise OwnerNotNamedError(
                f"{table.uri}: it names the commit owner dynamodb at {shown!r}, which is not "
                "Amazon's, and whoever may write to the table chose that address. If it is yours, "
                f"give the storage option aws_endpoint_url_dynamodb={shown}"
            )
        options["aws_endpoint_url_dynamodb"] = endpoint
    items = DynamoTable(parse_dynamo_options(options), partition=_ID)
    return DynamoDbOwnerClient(table, items, options.get("delta_dynamo_table_path"))


class DynamoDbOwnerClient(CommitOwnerClient):
    """The client for one table, whose item is among `items`."""

    def __init__(self, table: ManagedTable, items: DynamoTable, path: str | None = None) -> None:
        """With `path` the table is there, whatever its address is."""
        self._table = table
        self._items = items
        self._path = _hadoop_path(table.uri) if path is None else path.rstrip("/")

    def __repr__(self) -> str:
        return f"DynamoDbOwnerClient({self._items!r})"

    @property
    def takes_inline_commits(self) -> bool:
        """No: commits are files."""
        return False

    @property
    def permits_maintenance(self) -> bool:
        """Yes."""
        return True

    @property
    def _id(self) -> str:
        found = self._table.table_conf.get(_ID)
        if not found:
            raise InvalidTableError(
                f"{self._table.uri} has the commit owner dynamodb, and keeps no {_ID} for it; "
                "restore the log to the version before"
            )
        return found

    async def _entry(self) -> _Entry:
        """The table's item.

        Raises:
            TableNotFoundError: there is none.
            UnsupportedFeatureError: it is of another version of Delta Spark's scheme.
            InvalidTableError: it is of another table, or damaged.
            StorageError: DynamoDB refused or failed.
        """
        item = await self._items.get(self._id)
        if item is None:
            raise TableNotFoundError(
                f"the DynamoDB table {self._items.name} has no item {self._id} for "
                f"{self._table.uri}"
            )
        entry = _Entry.of(item, f"the item {self._id} of the DynamoDB table {self._items.name}")
        if not _is_same(entry.path, self._path):
            raise InvalidTableError(
                f"{self._table.uri} is registered in the DynamoDB table {self._items.name} as the "
                f"table at {entry.path}: a copy of a table has to be given an owner anew. Where it "
                "is the same one, say so by the storage option delta_dynamo_table_path"
            )
        return entry

    async def get_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """The commits of the range that may not be published.

        Raises:
            TableNotFoundError: DynamoDB has no item for the table.
            InvalidTableError: it is damaged, or of another table.
            StorageError: DynamoDB refused or failed.
        """
        entry = await self._entry()
        first = 0 if start_version is None else start_version
        found = tuple(
            commit
            for commit in entry.told.commits
            if first <= commit.version and (end_version is None or commit.version <= end_version)
        )
        return RatifiedCommits(entry.told.latest_version if entry.has_accepted else -1, found)

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify a staged commit.

        Raises:
            TableNotFoundError: the table has no item, or has gone back to the filesystem.
            CommitOutcomeUnknownError: it may have been ratified.
            StorageError: DynamoDB refused; nothing was ratified.
        """
        return await self._ratify(proposed, {})

    async def release(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify a staged commit as the last one. Raises: as `commit` does."""
        return await self._ratify(proposed, {"acceptingCommits": False})

    async def _ratify(self, proposed: ProposedCommit, also: Item) -> CommitResponse:
        assert proposed.staged_file is not None
        before = await self._entry()
        if before.told.latest_version != proposed.version - 1 or not before.accepting:
            return self._answer(before, proposed)
        mine: dict[str, Value] = {
            "version": proposed.version,
            "timestamp": proposed.in_commit_timestamp,
            "fsName": proposed.staged_file,
            "fsLength": proposed.size,
            "fsTimestamp": proposed.modified_ms,
        }
        item: Item = {
            _ID: self._id,
            "tableVersion": proposed.version,
            "hasAcceptedCommits": True,
            "tableTimestamp": proposed.in_commit_timestamp,
            **also,
        }
        append: dict[str, list[Value]] = {}
        if (proposed.published_version or -1) >= proposed.version - 1:
            item["commits"] = [mine]  # all before it are published
        else:
            append["commits"] = [mine]
        where: Item = {
            "tableVersion": proposed.version - 1,
            "acceptingCommits": True,
            "path": before.path,
            "schemaVersion": _SCHEMA,
        }
        if await self._items.update(item, where=where, append=append):
            return CommitResponse(ratified=True)
        return self._answer(await self._entry(), proposed)

    def _answer(self, entry: _Entry, proposed: ProposedCommit) -> CommitResponse:
        """Why a commit was not ratified; it may have been, where the answer was lost."""
        if entry.told.latest_version < proposed.version and not entry.accepting:
            raise TableNotFoundError(
                f"{self._table.uri} has gone from the DynamoDB table {self._items.name} back to "
                "the filesystem"
            )
        return CommitResponse(ratified=False, latest=entry.told)

    async def table_conf(self) -> Mapping[str, str]:
        """The id of the item that a table is to have."""
        return {_ID: str(new_uuid())}

    async def propose(self, proposed: ProposedCommit) -> None:
        """Register the table.

        Raises:
            StorageError: another table has the item, or DynamoDB refused.
        """
        version: Item = {_ID: self._id, "tableVersion": proposed.version}
        fixed: Item = {
            "hasAcceptedCommits": False,
            "acceptingCommits": True,
            "path": self._path,
            "schemaVersion": _SCHEMA,
        }
        if await self._items.put_new({**version, **fixed, "commits": []}):
            return
        before = (await self._entry()).told.latest_version  # of another attempt
        at_least = max(before, proposed.version)  # a request that took long lowers nothing
        registered: Item = {**version, "tableVersion": at_least}
        if not await self._items.update(registered, where={**fixed, "tableVersion": before}):
            raise StorageError(
                f"the DynamoDB table {self._items.name} has an item {self._id} that is in use "
                f"already; give {self._table.uri} to its owner anew"
            )

    async def accept(self, version: int) -> None:
        """See that the table is registered: it owns the table since it promised to.

        Raises:
            TableNotFoundError: it is not.
        """
        await self._entry()

    async def aclose(self) -> None:
        """Give back the connections to DynamoDB."""
        await self._items.aclose()


@dataclass(frozen=True, slots=True)
class _Entry:
    """What an item says: `told` has the version as DynamoDB has it, ratified or not."""

    path: str
    accepting: bool
    has_accepted: bool
    told: RatifiedCommits

    @classmethod
    def of(cls, item: Item, name: str) -> _Entry:
        """Raises: UnsupportedFeatureError, InvalidTableError."""
        if item.get("schemaVersion") != _SCHEMA:
            raise UnsupportedFeatureError(
                f"{name} has schemaVersion {item.get('schemaVersion')!r:.40}, and this adelta "
                f"knows {_SCHEMA}; upgrade adelta"
            )
        path, version, commits = item.get("path"), item.get("tableVersion"), item.get("commits")
        accepting, accepted = item.get("acceptingCommits"), item.get("hasAcceptedCommits")
        if (
            not isinstance(path, str)
            or type(version) is not int
            or not isinstance(commits, list)
            or not isinstance(accepting, bool)
            or not isinstance(accepted, bool)
        ):
            raise InvalidTableError(f"{name} is damaged: {item!r:.300}")
        told = RatifiedCommits(version, tuple(_commit(each, name) for each in commits))
        return cls(path, accepting, accepted, told)


def _commit(value: Value, name: str) -> RatifiedCommit:
    if isinstance(value, dict):
        version, file = value.get("version"), value.get("fsName")
        size, time = value.get("fsLength"), value.get("fsTimestamp")
        if (
            type(version) is int
            and isinstance(file, str)
            and type(size) is int
            and type(time) is int
        ):
            return RatifiedCommit(version, file, size=size, modified_ms=time)
    raise InvalidTableError(f"{name} has a damaged commit: {value!r:.300}")


def _hadoop_path(uri: str) -> str:
    """The address of a table as Hadoop writes it."""
    return f"file:{uri[7:]}" if uri.startswith("file:///") else uri


def _is_same(one: str, other: str) -> bool:
    """Whether two paths are of one table, whichever scheme of S3's they are given by."""
    schemes = {"s3": "s3a", "s3n": "s3a"}

    def plain(path: str) -> str:
        scheme, _, rest = path.rstrip("/").partition(":")
        return f"{schemes.get(scheme, scheme)}:{rest}"

    return plain(one) == plain(other)
