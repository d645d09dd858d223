"""What every test shares."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest_plugins = ["tests.support.s3_server"]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Plain asyncio, as most users have it; with `ADELTA_TEST_UVLOOP=1` it is uvloop."""
    return "asyncio", {"use_uvloop": os.environ.get("ADELTA_TEST_UVLOOP") == "1"}
