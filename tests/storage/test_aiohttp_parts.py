"""What adelta uses of aiohttp without its being documented, and doing without it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import aiohttp
import pytest

from adelta.errors import StorageError
from adelta.storage import _aiohttp, long_body
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from tests.support.s3_server import S3Location


def test_the_installed_aiohttp_is_as_adelta_knows_it() -> None:
    assert _aiohttp.has_known_connections()
    assert _aiohttp._KNOWN


async def test_a_session_repeats_nothing_by_itself_or_is_refused() -> None:
    async with aiohttp.ClientSession() as session:
        assert session._retry_connection
        _aiohttp.repeat_nothing(session)
        assert not session._retry_connection

    class Other:
        """A session of an aiohttp that has no such switch."""

    with pytest.raises(StorageError, match="aiohttp<4"):
        _aiohttp.repeat_nothing(Other())  # type: ignore[arg-type]


@pytest.mark.parametrize("lacking", ["_reschedule_timeout", "set_exception", "_parser"])
def test_an_aiohttp_that_lacks_a_part_is_noticed(lacking: str) -> None:
    class Whole:
        def __init__(self) -> None:
            self._payload = self._parser = self.transport = None

    class Less:
        def __init__(self) -> None:
            self._payload = self.transport = None

    names = [name for name in _aiohttp._METHODS if name != lacking]
    base = Less if lacking == "_parser" else Whole
    assert not _aiohttp.has_known_connections(type("Other", (base,), dict.fromkeys(names)))
    every = dict.fromkeys(_aiohttp._METHODS)
    assert _aiohttp.has_known_connections(type("Other", (Whole,), every))


async def test_without_them_long_bodies_come_aiohttps_way(
    s3_location: S3Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = os.urandom(4 * long_body.LONG_BODY)
    monkeypatch.setattr(_aiohttp, "_KNOWN", False)
    store = open_store(s3_location.uri, s3_location.storage_options)
    try:
        await store.put("a", body)
        assert await store.get("a") == body
        (part,) = await store.get_ranges("a", [(7, len(body) - 1)])
        assert bytes(part) == body[7:-1]
    finally:
        await store.aclose()
