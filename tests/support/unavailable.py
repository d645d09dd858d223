"""What becomes of a test that needs something which the machine does not have.

On anybody's machine it is skipped, with the reason. Where `CI` is set it fails: there whatever the
tests can use is installed first, and a skip would pass for a proof.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

__all__ = ["in_ci", "unavailable"]


def in_ci() -> bool:
    """Whether all that the tests can use has to be there."""
    return bool(os.environ.get("CI"))


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it where `CI` is set; to be called by the test or its fixtures."""
    if in_ci():
        pytest.fail(f"{reason} (where CI is set, nothing may be missing)", pytrace=False)
    pytest.skip(reason)
