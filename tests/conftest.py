"""What every test shares."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.second_opinion import compare_readers, tables_below

if TYPE_CHECKING:
    from collections.abc import Iterator

# The same examples every time, so that a run says something of the code alone, and no limits of
# time, which say something of the machine. `HYPOTHESIS_PROFILE=random` searches further.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

pytest_plugins = [
    "tests.support.certificates",
    "tests.support.dynamo_server",
    "tests.support.earlier_deltalake",
    "tests.support.postgres_server",
    "tests.support.s3_server",
    "tests.support.unity_catalog",
]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Plain asyncio, as most users have it; with `ADELTA_TEST_UVLOOP=1` it is uvloop.

    With `ADELTA_TEST_EAGER_TASKS=1` tasks begin where they are made, from Python 3.12 on.
    """
    if os.environ.get("ADELTA_TEST_EAGER_TASKS") == "1":
        return "asyncio", {"loop_factory": _eager_loop}
    return "asyncio", {"use_uvloop": os.environ.get("ADELTA_TEST_UVLOOP") == "1"}


def _eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    return loop


@pytest.fixture(autouse=True)
def second_opinion(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test has written to `tmp_path` is read back by other readers than adelta."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    failed = request.session.testsfailed
    yield
    if folder is not None and request.session.testsfailed == failed:
        for root in tables_below(folder):
            compare_readers(root)
