"""The log: its commits, checkpoints, compactions and checksums, with their sizes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from adelta.operations.inspect.log_files import log_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["log"]


async def log(table: Table, _asked: Asked, _kept: Kept) -> Mapping[str, Any]:
    """What the log consists of; several commits are one bar where there are many."""
    return asdict(await log_files(table))
