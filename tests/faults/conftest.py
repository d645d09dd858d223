"""What tests of faults share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.supervised import supervised
from tests.support.system_calls import why_not
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.supervised import Supervised


@pytest.fixture(scope="session")
def victims() -> Iterator[Supervised]:
    """Operations whose system calls are looked at, and may be made to fail."""
    why = why_not()
    if why is not None:
        unavailable(why)
    with supervised() as process:
        yield process
