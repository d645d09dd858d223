"""How many rows files hold of which the log does not say it, by their footers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent
from adelta.kernel.statistics import num_records, with_num_records
from adelta.read.opener import open_data_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.storage.roots import StoreRoots

__all__ = ["counted"]

_FOOTERS_AT_ONCE = 32


async def counted(roots: StoreRoots, files: Iterable[AddFile]) -> list[AddFile]:
    """The files in their order, each with the number of its rows in its statistics.

    The footers of those are read that lack it.

    Raises:
        MissingDataFileError: one of these is not there.
        InvalidTableError: one of these is damaged.
        StorageError: the store refused or failed.
    """
    found = list(files)
    bare = [place for place, file in enumerate(found) if num_records(file.stats) is None]

    async def count(place: int) -> None:
        file = found[place]
        rows = (await open_data_file(roots, file)).layout.num_rows
        found[place] = replace(file, stats=with_num_records(file.stats, rows))

    await map_concurrent(count, bare, limit=_FOOTERS_AT_ONCE)
    return found
