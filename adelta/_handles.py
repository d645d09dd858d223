"""The handle on a table, with what its first scan needs, where that holds up no event loop.

A program that names `open_table` before its event loop runs, as services do when they start, has
loaded by then what knows predicates and reads rows; none of it is left for the loop to load when a
request comes. One that names it within a loop waits for no more than opens a table: the rest comes
when it is first used.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

from adelta.table import Table, open_table

__all__ = ["Table", "open_table"]

_FOR_SCANS = (
    "adelta.kernel.data_skipping.prune",
    "adelta.kernel.expressions.dnf",
    "adelta.log.version_replay",
    "adelta.read.index_skipping",
    "adelta.scan",
)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


if not _loop_is_running():
    for _module in _FOR_SCANS:
        import_module(_module)
