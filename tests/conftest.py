"""What every test shares."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
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

# Files that take more than a minute, the longest ones first: of several processes none shall begin
# one of them when the others are about to end.
LONGEST = (
    "cli/test_demo.py",
    "faults/test_system_calls.py",
    "faults/test_maintenance.py",
    "property/test_skipping.py",
    "faults/test_killed_process.py",
    "property/test_log_cleanup.py",
    "docs/test_pages.py",
    "spark/test_streams.py",
    "spark/test_connect.py",
    "spark/test_native_scan.py",
    "spark/test_stream_faults.py",
    "spark/test_paths_as_names.py",
    "spark/test_hooked_session.py",
    "spark/test_read.py",
    "spark/test_write_modes.py",
    "stateful/test_linearizability.py",
    "property/test_alterations.py",
    "commit/test_linearizability.py",
    "fuzz/test_native_decoders.py",
    "interoperability/test_reading.py",
)

pytest_plugins = [
    "tests.support.azure_server",
    "tests.support.certificates",
    "tests.support.dynamo_server",
    "tests.support.earlier_deltalake",
    "tests.support.express_server",
    "tests.support.faulty_calls",
    "tests.support.postgres_server",
    "tests.support.r2_server",
    "tests.support.gcs_server",
    "tests.support.hdfs_server",
    "tests.support.s3_server",
    "tests.support.unity_catalog",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where the tests are shared among processes, the longest files come first."""
    if not hasattr(config, "workerinput"):
        return
    rank = {Path(__file__).parent / path: at for at, path in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(LONGEST)))


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
