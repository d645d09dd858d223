"""One DynamoDB table: small items, put and changed conditionally.

Requests go through aiobotocore. They are tried again here, not there, because a conditional put
that was tried again and then refused may have been our own: whoever gets False from `put_new` looks
at the item that is there.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)
from adelta.storage.aws_client import client_arguments
from adelta.storage.credentials import AccessProvider
from adelta.storage.request_log import logged
from adelta.storage.request_runner import run_request
from adelta.storage.retry import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.credentials import Access
    from adelta.storage.dynamodb_options import DynamoOptions
    from adelta.storage.sigv4 import Credentials

__all__ = ["DynamoTable", "Item", "Value"]

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value]"
"""What an attribute may hold: texts, whole numbers, flags, and lists and maps of them."""
Item: TypeAlias = dict[str, Value]
"""An item's attributes."""

_log = logging.getLogger("adelta.storage.dynamodb")

_UNITS = 5  # of provisioned capacity, each for reads and writes
_LOOK_EVERY = 0.5  # seconds, while the table is being made
_EXPIRED = frozenset({"ExpiredTokenException", "ExpiredToken"})
_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
    }
)
_DENIED = frozenset(
    {
        "AccessDeniedException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
        *_EXPIRED,
    }
)
_UNSENT = ("EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError")


_kept: list[_Client] = []  # which collecting would close in the wrong loop, or process


class _RefusedError(StorageError):
    """The condition of a write was not met."""


class _NoTableError(StorageError):
    """There is no such table."""


class _TableExistsError(StorageError):
    """There is such a table already."""


_SPECIAL: Mapping[str, type[StorageError]] = {
    "ConditionalCheckFailedException": _RefusedError,
    "ResourceNotFoundException": _NoTableError,
    "ResourceInUseException": _TableExistsError,
}


class DynamoTable:
    """A table whose items are found by the text attributes `partition` and `sort`, if it has one.

    Attributes:
        request_count: requests sent so far, every attempt counted.
    """

    def __init__(self, options: DynamoOptions, *, partition: str, sort: str | None = None) -> None:
        self.name = options.table
        self.request_count = 0
        self._options = options
        self._keys = (partition,) if sort is None else (partition, sort)
        self._provider = AccessProvider(options.client)
        self._session: Any = None
        self._clients: list[_Client] = []  # those with older keys may have requests under way
        self._lock = anyio.Lock()
        self._bound: tuple[int, asyncio.AbstractEventLoop] | None = None

    def __repr__(self) -> str:
        return f"DynamoTable({self.name!r})"

    # ------------------------------------------------------------------------------------ items

    async def get(self, *keys: str) -> Item | None:
        """The item of the key, as the last finished write left it.

        Raises:
            StorageError: DynamoDB refused or failed.
        """
        key = _encoded(dict(zip(self._keys, keys, strict=True)))
        try:
            answer = await self._call("get_item", Key=key, ConsistentRead=True)
        except _NoTableError:
            return None
        return _decoded(answer["Item"]) if "Item" in answer else None

    async def last(self, partition: str) -> Item | None:
        """The item of the partition whose sort key is the highest; None where there is none.

        Raises:
            StorageError: DynamoDB refused or failed.
        """
        try:
            answer = await self._call(
                "query",
                ConsistentRead=True,
                ScanIndexForward=False,
                Limit=1,
                KeyConditionExpression="#k = :k",
                ExpressionAttributeNames={"#k": self._keys[0]},
                ExpressionAttributeValues=_encoded({":k": partition}),
            )
        except _NoTableError:
            return None
        return _decoded(answer["Items"][0]) if answer["Items"] else None

    async def put_new(self, item: Item) -> bool:
        """Put the item if there is none with its key. False says that there is one, maybe this.

        Where there is no table yet, it is made.

        Raises:
            CommitOutcomeUnknownError: the item may have been put.
            StorageError: DynamoDB refused; nothing was put.
        """
        request = {
            "Item": _encoded(item),
            "ConditionExpression": "attribute_not_exists(#s)",
            "ExpressionAttributeNames": {"#s": self._keys[-1]},
        }
        try:
            try:
                await self._call("put_item", **request)
            except _NoTableError:
                await self._make_table()
                await self._call("put_item", **request)
        except _RefusedError:
            return False
        return True

    async def update(
        self, item: Item, *, where: Item, append: Mapping[str, list[Value]] | None = None
    ) -> bool:
        """Set the other attributes of the item with this key, if it has those of `where`.

        What is in `append` is put behind the lists that the item has.

        Raises:
            CommitOutcomeUnknownError: the item may have been changed.
            StorageError: DynamoDB refused; nothing was changed.
        """
        given = {name: item[name] for name in item if name not in self._keys}
        more: Mapping[str, Value] = dict(append or {})
        named = [*given.items(), *more.items(), *where.items()]
        names = {f"#{at}": name for at, (name, _) in enumerate(named)}
        values: Item = {f":{at}": value for at, (_, value) in enumerate(named)}
        set_to = [f"#{at} = :{at}" for at in range(len(given))]
        ends = len(given) + len(more)
        set_to += [f"#{at} = list_append(#{at}, :{at})" for at in range(len(given), ends)]
        tests = [f"#{at} = :{at}" for at in range(ends, len(named))]
        try:
            await self._call(
                "update_item",
                Key=_encoded({name: item[name] for name in self._keys}),
                UpdateExpression="SET " + ", ".join(set_to),
                ConditionExpression=" AND ".join(tests),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=_encoded(values),
            )
        except _RefusedError:
            return False
        return True

    # -------------------------------------------------------------------------------- the table

    async def _make_table(self) -> None:
        kinds = ("HASH", "RANGE")
        _log.warning("there is no DynamoDB table %s: it is made now", self.name)
        throughput = {"ReadCapacityUnits": _UNITS, "WriteCapacityUnits": _UNITS}
        provisioned = self._options.billing_mode == "PROVISIONED"
        with suppress(_TableExistsError):  # somebody else makes it
            await self._call(
                "create_table",
                AttributeDefinitions=[
                    {"AttributeName": name, "AttributeType": "S"} for name in self._keys
                ],
                KeySchema=[
                    {"AttributeName": name, "KeyType": kind}
                    for name, kind in zip(self._keys, kinds, strict=False)
                ],
                BillingMode=self._options.billing_mode,
                **({"ProvisionedThroughput": throughput} if provisioned else {}),
            )
        ends = anyio.current_time() + self._options.max_elapsed
        while True:
            with suppress(_NoTableError):
                found = await self._call("describe_table")
                if found["Table"]["TableStatus"] == "ACTIVE":
                    return
            if anyio.current_time() > ends:
                raise StorageError(
                    f"the DynamoDB table {self.name} was not ready after "
                    f"{self._options.max_elapsed:g} s; try again"
                )
            await anyio.sleep(_LOOK_EVERY)

    # --------------------------------------------------------------------------------- requests

    async def _call(self, operation: str, **request: object) -> dict[str, Any]:
        """The answer, after as many attempts as it takes.

        Raises:
            _RefusedError: the condition was not met.
            _NoTableError: there is no table.
            _TableExistsError: there is one already.
            CommitOutcomeUnknownError: a write may have taken effect.
            StorageError: DynamoDB refused or failed.
        """
        client: _Client | None = None

        async def attempt() -> tuple[Outcome | None, dict[str, Any] | _Failure]:
            nonlocal client
            client = await self._connected()
            result = await self._attempt(client.api, operation, request)
            return (result.outcome if isinstance(result, _Failure) else None), result

        async def renew() -> bool:
            return (
                client is not None and await self._provider.after_expiry(client.access) is not None
            )

        policy = replace(self._options.client.retry, retry_timeout=self._options.max_elapsed)
        name = f"DynamoDB {operation} on table {self.name}"
        ended = await run_request(attempt, policy, name=name, renew=renew)
        result = ended.result
        if not isinstance(result, _Failure):
            return result
        if result.code in _SPECIAL:
            raise _SPECIAL[result.code](result.reason)
        in_doubt = ended.repeated or result.outcome.maybe_applied
        keys = None if client is None else client.access.credentials
        raise _error(name, operation, result, keys, in_doubt=in_doubt)

    async def _attempt(
        self, api: Any, operation: str, request: Mapping[str, object]
    ) -> dict[str, Any] | _Failure:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        self.request_count += 1
        try:
            with logged(operation, repr(self)) as exchange:
                try:
                    call = getattr(api, operation)
                    answer: dict[str, Any] = await call(TableName=self.name, **request)
                except ClientError as error:
                    exchange.status = _status(error.response)
                    raise
                exchange.status = _status(answer)
        except ClientError as error:
            status = _status(error.response)
            code = str(error.response.get("Error", {}).get("Code", ""))
            broken = status >= 500
            return _Failure(
                code,
                str(error),
                Outcome(
                    f"its status is {status}",
                    transient=broken or code in _THROTTLED,
                    maybe_applied=broken,
                    expired=code in _EXPIRED,
                ),
            )
        except (BotoCoreError, OSError) as error:
            unsent = type(error).__name__ in _UNSENT
            lost = not unsent and isinstance(error, (HTTPClientError, OSError))
            reason = f"{type(error).__name__}: {error}"
            return _Failure(
                "",
                reason,
                Outcome("it got no answer", transient=unsent or lost, maybe_applied=lost),
            )
        return answer

    async def _connected(self) -> _Client:
        """A client with the keys of now, for the running loop."""
        access = await self._provider.current()
        await self._bind()
        async with self._lock:
            newest = self._clients[-1] if self._clients else None
            if newest is None or newest.access is not access:
                newest = await self._open_client(access)
                self._clients.append(newest)
                if len(self._clients) > 2:
                    await self._clients.pop(0).aclose()
            return newest

    async def _open_client(self, access: Access) -> _Client:
        options, keys = self._options.client, access.credentials
        if keys is None:
            raise InvalidOptionError("there are no AWS credentials to ask DynamoDB with")
        if self._session is None:
            self._session = await in_io_thread(_warm_session, options.profile, access.region)
        stack = AsyncExitStack()
        made = self._session.create_client(
            **client_arguments(
                self._session,
                "dynamodb",
                options.http,
                region=access.region,
                endpoint=options.endpoint,
                attempts=1,
            ),
            aws_access_key_id=keys.access_key_id,
            aws_secret_access_key=keys.secret_access_key,
            aws_session_token=keys.session_token,
        )
        api = await stack.enter_async_context(made)
        return _Client(api, access, stack)

    async def _bind(self) -> None:
        """Begin anew in another loop, or in a forked child: clients belong to where they began."""
        here = (os.getpid(), asyncio.get_running_loop())
        before, left = self._bound, self._clients
        if before == here:
            return
        self._clients, self._lock, self._bound = [], anyio.Lock(), here
        for client in left:
            if before is not None and before[0] == here[0] and before[1].is_closed():
                await client.aclose()  # nothing of that loop is waited for
            else:
                _kept.append(client)  # closing would end what others use

    async def aclose(self) -> None:
        """Give back the connections. Calling it again does nothing."""
        await self._bind()
        async with self._lock:
            while self._clients:
                await self._clients.pop().aclose()


@dataclass(frozen=True, slots=True)
class _Client:
    """A client of aiobotocore, and the keys that it was made with."""

    api: Any
    access: Access
    stack: AsyncExitStack

    async def aclose(self) -> None:
        await self.stack.aclose()


def _status(answer: Mapping[str, Any]) -> int:
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt: DynamoDB's code for it, where there is one, why, and what may help."""

    code: str
    reason: str
    outcome: Outcome


def _error(
    name: str, operation: str, failure: _Failure, keys: Credentials | None, *, in_doubt: bool
) -> Exception:
    """The error that the failure of an operation is raised as."""
    text = f"{name} failed: {failure.reason}"
    if in_doubt and operation in ("put_item", "update_item"):
        return CommitOutcomeUnknownError(f"{text}; it may have taken effect")
    if failure.code in _DENIED:
        return PermissionDeniedError(f"{text} (credentials: {keys.source if keys else 'none'})")
    if failure.code in _THROTTLED:
        return ThrottledError(text)
    return StorageError(text)


def _warm_session(profile: str | None, region: str) -> Any:
    """A session that has read what clients of DynamoDB are made of: that would hold up the loop."""
    from aiobotocore.session import AioSession

    session = AioSession(profile=profile)

    async def make_one() -> None:
        keys = {"aws_access_key_id": "-", "aws_secret_access_key": "-"}
        async with session.create_client("dynamodb", region_name=region, **keys):
            pass

    asyncio.run(make_one())
    return session


def _encoded(item: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    return {name: _encoded_value(value) for name, value in item.items()}


def _encoded_value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case list():
            return {"L": [_encoded_value(each) for each in value]}
    return {"M": _encoded(value)}


def _decoded(item: Mapping[str, Mapping[str, Any]]) -> Item:
    """The attributes that are of kinds that we write; others are not ours."""
    found = {name: _decoded_value(value) for name, value in item.items()}
    return {name: value for name, value in found.items() if value is not None}


def _decoded_value(value: Mapping[str, Any]) -> Value | None:
    match dict(value):
        case {"S": str(text)}:
            return text
        case {"N": str(number)} if number.lstrip("-").isdecimal():
            return int(number)
        case {"BOOL": bool(flag)}:
            return flag
        case {"L": list(values)}:
            found = [_decoded_value(each) for each in values]
            return [each for each in found if each is not None]
        case {"M": dict(values)}:
            return _decoded(values)
    return None
