"""What every test shares."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Plain asyncio, as most users have it; `ADELTA_TEST_UVLOOP=1` runs the same tests on uvloop."""
    return "asyncio", {"use_uvloop": os.environ.get("ADELTA_TEST_UVLOOP") == "1"}
