"""The OpenAPI document, held against what the client and the service really say to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from adelta.commit.owner_client import owned_tables
from adelta.commit.owner_wire import API
from adelta.errors import AdeltaError
from adelta.owner.openapi import document
from adelta.storage.json_http import JsonServer
from tests.support.owners import proposal, running

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.json_http import JsonAnswer

_UUID = "7d17ac10-5cc3-401b-bd1a-9c82dd2ea032"


async def test_requests_and_answers_are_what_the_document_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str, Any, JsonAnswer]] = []
    get, post = JsonServer.get, JsonServer.post

    async def asked(self: JsonServer, path: str, query: Any = None) -> JsonAnswer:
        answer = await get(self, path, query)
        told.append(("get", path, query, answer))
        return answer

    async def changed(self: JsonServer, path: str, body: Any) -> JsonAnswer:
        answer = await post(self, path, body)
        told.append(("post", path, body, answer))
        return answer

    monkeypatch.setattr(JsonServer, "get", asked)
    monkeypatch.setattr(JsonServer, "post", changed)
    async with running(tmp_path) as owner:
        token = await owner.token()
        client = await owner.adopted(token=token)
        name = f"{2:020d}.{_UUID}.json"
        await client.commit(proposal(1, "x"))
        await client.commit(proposal(1, "y"))
        staged = tmp_path / "orders" / "_delta_log" / "_commits" / name
        staged.parent.mkdir()
        staged.write_bytes(proposal(2, "z").content)
        await client.commit(proposal(2, "z", staged_file=name))
        await client.get_commits(0, 5)
        await client.owner.commit_together([(client, proposal(3, "x"))])
        await client.owner.get_commits_together([(client, None), (client, 1)])
        assert await client.wait_for_commit(1, 0) == 3
        await client.backfill_to_version()
        for work in (client.commit(proposal(9, "x")), client.propose(proposal(9, "x"))):
            with pytest.raises(AdeltaError):
                await work
        await client.release(proposal(4, "bye"))
        options = {"adelta_owner_endpoint": owner.endpoint, "adelta_owner_token": token}
        (table,) = await owned_tables(options)
        assert table["state"] == "released"
    said = document()
    for method, path, sent, answer in told:
        operation = said["paths"][f"{API}/{path}"][method]
        told_of = operation["responses"][str(answer.status)]["content"]["application/json"]
        check(said, told_of["schema"], answer.body)
        if method == "post":
            wanted = operation["requestBody"]["content"]["application/json"]["schema"]
            check(said, wanted, sent)
        else:
            named = {each["name"] for each in operation["parameters"]}
            assert {*sent} <= named
    routes = {path for path in said["paths"] if path.startswith(API)}
    assert {f"{API}/{path}" for _, path, _, _ in told} == routes


def check(said: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    """Find a value to be as a schema of the document has it, and to have nothing beyond it."""
    closed = {"components": said["components"], "allOf": [schema], "unevaluatedProperties": False}
    Draft202012Validator(closed).validate(value)
