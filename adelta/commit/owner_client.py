"""The client of adelta's own commit owner, `adelta serve`: one request for a commit.

A table names its owner `adelta`, and the owner's `endpoint` in its conf, which whoever may write to
the table has chosen. So a token is sent to no endpoint but the one that the user names beside it,
by the storage options `adelta_owner_endpoint` and `adelta_owner_token`, or by the variables of the
environment of these names in capitals. Several are separated by commas; the tokens are then as many
as the endpoints, in the same order, or one for all.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import field
from typing import TYPE_CHECKING, Any

import anyio

from adelta._concurrency import map_concurrent
from adelta._dataclasses import dataclass
from adelta._secrets import without_secrets
from adelta.commit.owner import (
    CommitOwnerClient,
    CommitResponse,
    CommitTooLongError,
    ManagedTable,
)
from adelta.commit.owner_registry import OwnerNotNamedError
from adelta.commit.owner_wire import (
    API,
    error_named,
    is_error_name,
    proposed_json,
    ratified_from,
    version_told,
)
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    InvalidUseError,
    PermissionDeniedError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.storage.addresses import Place
from adelta.storage.given_options import GivenOptions
from adelta.storage.option_names import OWNER_ENDPOINT, OWNER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.commit.owner import ProposedCommit, RatifiedCommits
    from adelta.storage.json_http import JsonAnswer, JsonServer

__all__ = [
    "AdeltaOwner",
    "AdeltaOwnerClient",
    "backfill_tables",
    "client_of",
    "named_owner",
    "owned_tables",
]

_LONGEST_WAIT = 20.0  # seconds of one long poll
_LONGEST_ANSWER = 512 << 20  # bytes; twice what an owner keeps of a table, as text in JSON
_CONCURRENCY = 16
_REPEATS = 4
_TABLES = 8  # that an owner is asked to backfill at once
_OWNED = ("owned", "releasing")
_PAUSE = 0.1
_TOO_LONG = 413  # of the owner, or of something between
_GIVEN_UP = (408, 499)  # statuses by which something between says that it waited no longer


@dataclass(frozen=True, slots=True)
class AdeltaOwner:
    """A commit owner at an endpoint: commits over several of its tables are one transaction."""

    endpoint: str
    token: str = field(repr=False)

    async def commit_together(
        self, proposals: Sequence[tuple[CommitOwnerClient, ProposedCommit]]
    ) -> tuple[CommitResponse, ...]:
        """Ratify all proposals, in one database transaction, or none; the answers in that order.

        Raises:
            CommitOutcomeUnknownError: they may have been ratified.
            AdeltaError: the owner refused; certainly nothing was ratified.
        """
        clients = [self._own(client) for client, _ in proposals]
        if not clients:
            return ()
        commits = [
            {"table": client.named, "commit": proposed_json(proposed)}
            for client, (_, proposed) in zip(clients, proposals, strict=True)
        ]
        body = await clients[0].posted("commit-together", {"commits": commits})
        answers = body.get("answers")
        if not isinstance(answers, list) or len(answers) != len(proposals):
            raise CommitOutcomeUnknownError(f"{self.endpoint} does not answer as a commit owner")
        return tuple(_response(answer) for answer in answers)

    async def get_commits_together(
        self, tables: Sequence[tuple[CommitOwnerClient, int | None]]
    ) -> tuple[RatifiedCommits, ...]:
        """What `get_commits` says of each table from a version on, all of one moment.

        Raises:
            TableNotFoundError: the owner has no such table.
            StorageError: the owner refused or failed.
        """
        clients = [self._own(client) for client, _ in tables]
        if not clients:
            return ()
        asked = [
            {"table": client.named, "start": start}
            for client, (_, start) in zip(clients, tables, strict=True)
        ]
        body = await clients[0].posted("commits-together", {"tables": asked}, repeats=True)
        told = body.get("tables")
        if not isinstance(told, list) or len(told) != len(tables):
            raise StorageError(f"{self.endpoint} does not answer as a commit owner does")
        return tuple(ratified_from(one) for one in told)

    def _own(self, client: CommitOwnerClient) -> AdeltaOwnerClient:
        if not isinstance(client, AdeltaOwnerClient) or client.owner != self:
            raise InvalidUseError("tables of different commit owners cannot commit together")
        return client


class AdeltaOwnerClient(CommitOwnerClient):
    """The client of the owner at `endpoint` for one table. It can be pickled."""

    takes_inline_commits = True
    longest_inline_commit = 1 << 20  # a request has room for several
    permits_maintenance = True
    backfills = True
    announces_commits = True
    queues_losers = True

    def __init__(
        self, table: ManagedTable, endpoint: str, token: str, ca_bundle: str | None = None
    ) -> None:
        """Trust servers whose certificates are in `ca_bundle`, else as the system does. No I/O.

        Raises:
            InvalidOptionError: the endpoint is no address of a server.
        """
        self._table = table
        self._owner = AdeltaOwner(endpoint.rstrip("/"), token)
        self._ca_bundle = ca_bundle
        self._server = self._connected()
        self._polls = self._connected()  # which shall not take the place of commits
        self.named = {"uri": table.uri, "table_id": table.table_id}

    def _connected(self) -> JsonServer:
        from adelta.storage.json_http import JsonServer  # with it comes aiohttp

        owner = self._owner
        return JsonServer(
            owner.endpoint + API,
            token=owner.token,
            timeout=_LONGEST_WAIT + 20.0,
            concurrency=_CONCURRENCY,
            ca_bundle=self._ca_bundle,
            longest=_LONGEST_ANSWER,
        )

    def __repr__(self) -> str:
        endpoint = without_secrets(self._owner.endpoint)
        return f"AdeltaOwnerClient({endpoint!r}, {self._table.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The recipe that makes the same client elsewhere."""
        made_of = (self._table, self._owner.endpoint, self._owner.token, self._ca_bundle)
        return (AdeltaOwnerClient, made_of)

    @property
    def owner(self) -> AdeltaOwner:
        """The owner, which commits over several tables."""
        return self._owner

    async def get_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """The commits of the range that the owner keeps, and the latest version of the table.

        Raises:
            TableNotFoundError: the owner has no such table, not yet or no longer.
            InvalidTableError: the answer is not what the API says.
            StorageError: the owner refused or failed.
        """
        asked = {"start": start_version, "end": end_version}
        return ratified_from(await self._got("commits", asked))

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, if its version is the next one.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            ThrottledError: too many commits wait to be backfilled.
            TableNotFoundError: the owner does not own the table any more.
            AdeltaError: the owner refused; nothing was ratified.
        """
        body = {"table": self.named, "commit": proposed_json(proposed)}
        return _response(await self.posted("commit", body))

    async def backfill_to_version(self, version: int | None = None) -> None:
        """Publish all that is ratified up to `version`, all by default; it is there on return.

        Raises:
            StorageError: the owner refused or failed, or could not publish a commit.
        """
        await self.posted("backfill", {"table": self.named, "version": version}, repeats=True)

    async def propose(self, proposed: ProposedCommit) -> None:
        """Have the owner promise to own the table, if `proposed` gets into the log.

        Raises:
            AdeltaError: the owner refused, and has promised nothing.
        """
        commit = proposed_json(proposed, with_content=False)
        await self.posted("propose", {"table": self.named, "commit": commit}, repeats=True)

    async def accept(self, version: int) -> None:
        """Tell the owner that the commit which it promised to own the table by is in the log.

        Raises:
            AdeltaError: it has made no such promise, or failed.
        """
        await self.posted("accept", {"table": self.named, "version": version}, repeats=True)

    async def release(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, which takes the table from its owner, as its last commit.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            AdeltaError: the owner does not give the table up; nothing was ratified.
        """
        body = {"table": self.named, "commit": proposed_json(proposed)}
        return _response(await self.posted("release", body))

    async def wait_for_commit(self, after: int, timeout: float) -> int | None:
        """Wait for a version later than `after`, for `timeout` seconds: the latest one, or None.

        Raises:
            StorageError: the owner refused or failed.
        """
        until = anyio.current_time() + timeout
        while True:
            began = anyio.current_time()
            left = until - began
            seconds = max(0, min(math.ceil(left), math.floor(_LONGEST_WAIT)))
            with anyio.move_on_after(max(left, 0) + _PAUSE):
                asked = {"after": after, "seconds": seconds}
                latest = (await self._got("wait", asked, self._polls)).get("latest_version")
                if latest is not None:
                    return self._later(latest, after)
                if anyio.current_time() < began + _PAUSE:  # an owner that stops lets go of all
                    await anyio.sleep(_PAUSE)
            if until <= anyio.current_time():
                return None

    def _later(self, told: object, after: int) -> int:
        try:
            return version_told(told, after + 1)
        except ValueError as error:
            raise StorageError(
                f"{without_secrets(self._owner.endpoint)} does not answer as a commit owner does "
                f"to who waits for a version later than {after}: {error}"
            ) from error

    async def aclose(self) -> None:
        """Give back connections. Later calls make new ones."""
        await self._server.aclose()
        await self._polls.aclose()

    # ----------------------------------------------------------------------------------- inside

    async def _got(
        self, path: str, asked: Mapping[str, int | None], server: JsonServer | None = None
    ) -> Mapping[str, Any]:
        """The answer to a question about the table. Raises: AdeltaError."""
        query = {key: str(value) for key, value in asked.items() if value is not None}
        answer = await (server or self._server).get(path, {**self.named, **query})
        try:
            return _granted(self._owner.endpoint, answer)
        except CommitOutcomeUnknownError as error:  # nothing was to be committed
            raise StorageError(str(error)) from error

    async def posted(
        self, path: str, body: Mapping[str, Any], *, repeats: bool = False
    ) -> Mapping[str, Any]:
        """The answer to a request; one that `repeats` does no more when it is sent again.

        Raises:
            AdeltaError: the owner refused, or failed.
        """
        for attempt in range(1, _REPEATS + 1):
            answer = None
            try:
                answer = await self._server.post(path, body)
                return _granted(self._owner.endpoint, answer)
            except CommitOutcomeUnknownError as error:
                if not repeats:
                    raise
                failure: StorageError = StorageError(str(error))
                failure.__cause__ = error
            except PermissionDeniedError:
                raise
            except StorageError as error:
                if answer is None:  # it has been tried to be reached for long enough
                    raise
                if isinstance(error, ThrottledError) and not repeats:  # publishing may help first
                    raise
                failure = error  # the owner says that it has done nothing
            if attempt < _REPEATS:
                await anyio.sleep(_PAUSE * 2**attempt)
        raise failure


def _granted(endpoint: str, answer: JsonAnswer) -> Mapping[str, Any]:
    """What a request was answered. Raises: AdeltaError."""
    if answer.is_fine:
        return answer.body
    error = answer.body.get("error")
    told = error if isinstance(error, dict) else {}
    kind = str(told.get("type", ""))
    message = str(told.get("message") or answer.body.get("text") or answer.status)[:1000]
    if answer.status == _TOO_LONG:
        raise CommitTooLongError(f"the commit owner {without_secrets(endpoint)}: {message}")
    if not is_error_name(kind) and (answer.status >= 500 or answer.status in _GIVEN_UP):
        kind = "CommitOutcomeUnknown"  # of something between, which may have passed it on
    raise error_named(kind, f"the commit owner {without_secrets(endpoint)}: {message}")


def _response(body: object) -> CommitResponse:
    """Raises: CommitOutcomeUnknownError: it is no answer to a commit."""
    told = body if isinstance(body, dict) else {}
    ratified, latest = told.get("ratified"), told.get("latest")
    if not isinstance(ratified, bool):
        raise CommitOutcomeUnknownError("the commit owner does not answer as one does")
    try:
        return CommitResponse(ratified, None if latest is None else ratified_from(latest))
    except InvalidTableError as error:
        raise CommitOutcomeUnknownError(str(error)) from error


def client_of(table: ManagedTable, storage_options: Mapping[str, str]) -> AdeltaOwnerClient:
    """The client for a table that names its endpoint. There is no I/O.

    Raises:
        OwnerNotNamedError: the table names another than the user.
        InvalidOptionError: the table names none, or there is no token.
    """
    endpoint = str(table.conf.get("endpoint") or "").rstrip("/")
    if not endpoint:
        raise InvalidOptionError(
            f'{table.uri}: its commit owner adelta is named without {{"endpoint": "https://..."}} '
            "in its conf; set delta.managedCommit.commitOwnerConf"
        )
    options = GivenOptions(storage_options)
    allowed = _allowed(options)
    shown = without_secrets(endpoint)[:300]
    if endpoint not in allowed:
        raise OwnerNotNamedError(
            f"{table.uri}: it names the commit owner at {shown!r}, and whoever may write to the "
            "table chose that address. If it is yours, open the table with the storage option "
            f"{OWNER_ENDPOINT}={shown}, or set the variable {OWNER_ENDPOINT.upper()}"
        )
    if not (token := allowed[endpoint]):
        raise InvalidOptionError(
            f"{table.uri}: the commit owner at {shown!r} wants a token; give the storage option "
            f"{OWNER_TOKEN}, or set the variable {OWNER_TOKEN.upper()}"
        )
    _check_encrypted(endpoint, options)
    return AdeltaOwnerClient(table, endpoint, token, options.text("ca_bundle"))


def _check_encrypted(endpoint: str, options: GivenOptions) -> None:
    """Refuse to send a token to another machine unencrypted. Raises: InvalidOptionError."""
    scheme, _, rest = endpoint.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if scheme.lower() != "https" and not _is_near(name) and not options.flag("allow_http"):
        raise InvalidOptionError(
            f"the commit owner at {without_secrets(endpoint)[:300]!r} would be sent its token "
            "unencrypted; take an address with https, or give the storage option "
            "aws_allow_http=true where nobody listens in between"
        )


def _is_near(host: str) -> bool:
    """Whether a host is this machine, by its name alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _allowed(options: GivenOptions) -> dict[str, str]:
    """The endpoints that the user names, each with its token, which is empty where there is none.

    Raises:
        InvalidOptionError: there are more tokens, or fewer, than endpoints.
    """
    named, given = (
        (options.text(name) or "").replace(",", " ").split()
        for name in (OWNER_ENDPOINT, OWNER_TOKEN)
    )
    tokens = given * len(named) if len(given) == 1 else given or [""] * len(named)
    if len(tokens) != len(named):
        raise InvalidOptionError(
            f"{len(given)} tokens of commit owners are given, and {len(named)} endpoints; give as "
            f"many in {OWNER_TOKEN} as in {OWNER_ENDPOINT}, in the same order, or one for all"
        )
    return {endpoint.rstrip("/"): token for endpoint, token in zip(named, tokens, strict=True)}


def named_owner(storage_options: Mapping[str, str]) -> tuple[str, str]:
    """The endpoint of the one owner that the options or the environment name, and its token.

    Raises:
        InvalidOptionError: they name none, or several, or no token.
    """
    options = GivenOptions(storage_options)
    allowed = _allowed(options)
    if len(allowed) != 1 or not all(allowed.values()):
        raise InvalidOptionError(
            f"which commit owner? Set the variables {OWNER_ENDPOINT.upper()} and "
            f"{OWNER_TOKEN.upper()}, or give these names in lower case as storage options"
        )
    ((endpoint, token),) = allowed.items()
    _check_encrypted(endpoint, options)
    return endpoint, token


async def owned_tables(storage_options: Mapping[str, str]) -> list[dict[str, Any]]:
    """The tables of the owner that the options or the environment name, as its API tells of them.

    Raises:
        InvalidOptionError: they name none, or several, or no token.
        StorageError: the owner refused or failed.
    """
    from adelta.storage.json_http import JsonServer

    endpoint, token = named_owner(storage_options)
    options = GivenOptions(storage_options)
    bundle = options.text("ca_bundle")
    server = JsonServer(endpoint + API, token=token, ca_bundle=bundle)
    found: list[dict[str, Any]] = []
    asked: dict[str, str] = {}
    try:
        while True:
            body = _granted(endpoint, await server.get("tables", asked))
            found += body.get("tables") or []
            if not isinstance(body.get("next"), int):
                return found
            asked = {"after": str(body["next"])}
    finally:
        await server.aclose()


async def backfill_tables(
    storage_options: Mapping[str, str], uris: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Have the tables at some roots backfilled, or all that are owned; what is known of them.

    Raises:
        InvalidOptionError: the options name no owner.
        TableNotFoundError: it does not own one of them.
        StorageError: it refused or failed, or could not backfill one; it has the others.
    """
    tables = [t for t in await owned_tables(storage_options) if t["state"] in _OWNED]
    if uris:
        places = {Place.of(uri): uri for uri in uris}
        tables = [table for table in tables if Place.of(table["uri"]) in places]
        missing = places.keys() - {Place.of(table["uri"]) for table in tables}
        if missing:
            raise TableNotFoundError(
                f"the commit owner does not own {places[next(iter(missing))]}; ask for its status"
            )
    endpoint, _ = named_owner(storage_options)

    async def backfill(table: Mapping[str, Any]) -> StorageError | None:
        named = ManagedTable(table["uri"], table["table_id"], {"endpoint": endpoint})
        client = client_of(named, storage_options)
        try:
            await client.backfill_to_version(table["latest_version"])
        except StorageError as error:  # the others are backfilled all the same
            return error
        finally:
            await client.aclose()
        return None

    for failure in await map_concurrent(backfill, tables, limit=_TABLES):
        if failure is not None:
            raise failure
    return tables
