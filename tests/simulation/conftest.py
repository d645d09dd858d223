"""What the tests of the simulation leave behind: nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _as_loud_as_before() -> Iterator[None]:
    """A simulated run says nothing of what it does; the tests after it do."""
    logger = logging.getLogger("adelta")
    level = logger.level
    yield
    logger.setLevel(level)
