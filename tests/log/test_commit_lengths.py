"""Files of the log that are not as long as the listing of the log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adelta.changes import changes
from adelta.errors import InvalidTableError
from adelta.kernel.log_path import commit_path
from adelta.operations import history
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support import logs

if TYPE_CHECKING:
    from collections.abc import Sequence


class Shortened(MemoryStore):
    """A store that loses the last line of one object, and lists it as it is."""

    lost = commit_path(2)

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        bodies = await super().get_many(paths)
        return [
            body[: body[:-1].rindex(b"\n") + 1] if path == self.lost else body
            for path, body in zip(paths, bodies, strict=True)
        ]


async def table() -> Table:
    store = Shortened()
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata())
    for version in range(1, 4):
        adds = [logs.add(f"{version}-{n}.parquet") for n in range(2)]
        await logs.put_commit(store, version, *adds)
    return Table("memory://of/tests", store=store)


async def test_a_commit_that_lost_its_last_line_is_no_version() -> None:
    with pytest.raises(InvalidTableError, match=r"00002\.json: has \d+ bytes where the listing"):
        await (await table()).snapshot()


async def test_nor_is_it_history_or_a_change() -> None:
    broken = await table()
    with pytest.raises(InvalidTableError, match="where the listing of the log says"):
        await history(broken)
    with pytest.raises(InvalidTableError, match="where the listing of the log says"):
        [batch async for batch in changes(broken, since=1, until=3)]
