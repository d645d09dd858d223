from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from typing import TYPE_CHECKING

import pytest

from adelta._concurrency import map_concurrent
from adelta.errors import InvalidOptionError, StorageError
from adelta.storage.dynamodb import DynamoTable
from adelta.storage.dynamodb_options import parse_dynamo_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.dynamo_server import DynamoServer

KEYS = {
    "aws_access_key_id": "test",
    "aws_secret_access_key": "testtest",
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
}


@pytest.fixture
async def table(dynamo_server: DynamoServer) -> AsyncIterator[DynamoTable]:
    options = parse_dynamo_options({**KEYS, **dynamo_server.storage_options()}, {})
    made = DynamoTable(options, partition="place", sort="name")
    yield made
    await made.aclose()


async def test_an_item_is_put_once(table: DynamoTable) -> None:
    item = {"place": "p", "name": "a", "text": "x", "number": 7}
    assert await table.put_new(item)
    assert not await table.put_new({**item, "text": "y"})
    assert await table.get("p", "a") == item
    assert await table.get("p", "b") is None


async def test_of_many_racing_puts_exactly_one_is_told_that_it_won(table: DynamoTable) -> None:
    async def put(number: int) -> bool:
        return await table.put_new({"place": "p", "name": "a", "number": number})

    won = await map_concurrent(put, range(20), limit=20)
    assert won.count(True) == 1
    assert await table.get("p", "a") == {"place": "p", "name": "a", "number": won.index(True)}


async def test_the_last_item_is_the_one_with_the_highest_sort_key(table: DynamoTable) -> None:
    for place, name in (("p", "02"), ("p", "10"), ("p", "03"), ("q", "99")):
        await table.put_new({"place": place, "name": name})
    assert await table.last("p") == {"place": "p", "name": "10"}
    assert await table.last("r") is None


async def test_an_item_is_changed_where_its_attributes_are_as_said(table: DynamoTable) -> None:
    await table.put_new({"place": "p", "name": "a", "done": "false", "text": "x"})
    change = {"place": "p", "name": "a", "done": "true", "number": 3}
    assert not await table.update(change, where={"done": "false", "text": "y"})
    assert await table.update(change, where={"done": "false", "text": "x"})
    assert not await table.update(change, where={"done": "false", "text": "x"})
    assert await table.get("p", "a") == {**change, "text": "x"}
    assert not await table.update({**change, "name": "b"}, where={"done": "true"})
    assert await table.get("p", "b") is None


@pytest.mark.parametrize("mode", ["pay_per_request", "PROVISIONED"])
async def test_a_table_that_is_not_there_is_made_by_the_first_put_and_said(
    dynamo_server: DynamoServer, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**KEYS, **dynamo_server.storage_options(), "delta_dynamo_billing_mode": mode}
    tables = [
        DynamoTable(parse_dynamo_options(options, {}), partition="place", sort="name")
        for _ in range(4)
    ]
    assert await tables[0].get("p", "a") is None
    assert await tables[0].last("p") is None
    assert not caplog.records

    async def put(table: DynamoTable) -> bool:
        return await table.put_new({"place": "p", "name": "a"})

    with caplog.at_level(logging.WARNING):
        assert (await map_concurrent(put, tables, limit=4)).count(True) == 1
    assert options["delta_dynamo_table_name"] in caplog.text
    for table in tables:
        await table.aclose()


async def test_what_was_given_back_is_opened_again(table: DynamoTable) -> None:
    await table.put_new({"place": "p", "name": "a"})
    await table.aclose()
    assert await table.get("p", "a") is not None


def test_one_loop_after_another_uses_the_table(dynamo_server: DynamoServer) -> None:
    options = parse_dynamo_options({**KEYS, **dynamo_server.storage_options()}, {})
    table = DynamoTable(options, partition="place", sort="name")

    async def put(name: str, *, close: bool) -> bool:
        try:
            return await table.put_new({"place": "p", "name": name})
        finally:
            if close:
                await table.aclose()

    assert asyncio.run(put("a", close=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the sockets of a loop that was dropped
        assert asyncio.run(put("b", close=False))
        assert asyncio.run(put("c", close=True))
        gc.collect()


async def test_a_server_that_is_not_there_is_a_storage_error() -> None:
    options = {
        **KEYS,
        "aws_endpoint_url_dynamodb": "http://127.0.0.1:9",
        "max_retries": "2",
        "init_backoff": "1ms",
    }
    table = DynamoTable(parse_dynamo_options(options, {}), partition="place", sort="name")
    with pytest.raises(StorageError, match="put_item on table delta_log failed"):
        await table.put_new({"place": "p", "name": "a"})
    assert table.request_count == 3
    await table.aclose()


def test_what_is_said_of_dynamodb_wins_over_what_is_said_of_s3() -> None:
    said = {
        **KEYS,
        "aws_endpoint_url": "https://s3.example",
        "aws_endpoint_url_dynamodb": "https://dynamo.example/",
        "AWS_REGION_DYNAMODB": "eu-north-1",
        "aws_access_key_id_dynamodb": "other",
        "aws_secret_access_key_dynamodb": "secret",
        "aws_session_token_dynamodb": "token",
        "DELTA_DYNAMO_TABLE_NAME": "locks",
        "DELTA_DYNAMO_MAX_ELAPSED_REQUEST_TIME": "7",
    }
    for options, environment in ((said, {}), ({}, {key.upper(): v for key, v in said.items()})):
        parsed = parse_dynamo_options(options, environment)
        assert (parsed.table, parsed.max_elapsed) == ("locks", 7)
        assert parsed.client.endpoint == "https://dynamo.example"
        assert parsed.client.region == "eu-north-1"
        keys = parsed.client.credentials
        assert keys is not None
        assert (keys.access_key_id, keys.session_token) == ("other", "token")


def test_what_is_said_of_s3_holds_for_dynamodb() -> None:
    parsed = parse_dynamo_options({**KEYS, "aws_endpoint_url": "http://localhost:4566"}, {})
    assert (parsed.table, parsed.client.region) == ("delta_log", "us-east-1")
    assert parsed.client.endpoint == "http://localhost:4566"
    assert parsed.client.credentials is not None
    only_s3 = parse_dynamo_options({**KEYS, "aws_endpoint_url_s3": "http://localhost:9000"}, {})
    assert only_s3.client.endpoint is None


def test_keys_of_the_options_win_over_the_environments_for_dynamodb() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID_DYNAMODB": "other",
        "AWS_SECRET_ACCESS_KEY_DYNAMODB": "secret",
    }
    for options, key in ((KEYS, "test"), ({"aws_region": "us-east-1"}, "other")):
        keys = parse_dynamo_options(options, environment).client.credentials
        assert keys is not None
        assert keys.access_key_id == key


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delta_dynamo_billing_mode": "free"}, "PAY_PER_REQUEST"),
        ({"delta_dynamo_max_elapsed_request_time": "soon"}, "duration"),
        ({"aws_access_key_id_dynamodb": "x"}, "aws_secret_access_key_dynamodb"),
        ({"aws_endpoint_url_dynamodb": "http://x", "aws_allow_http": "false"}, "allow_http"),
        ({"aws_skip_signature": "true"}, "unsigned"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        parse_dynamo_options({**KEYS, **options}, {})
