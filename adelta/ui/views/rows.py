"""Rows of a version, and rows that commits changed: the first ones, within some seconds."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.changes.feed import changes as changes_of
from adelta.operations.inspect.file_totals import file_totals
from adelta.ui.answers import cells, shortened
from adelta.ui.views.overview import asked_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import pyarrow as pa

    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["changes", "rows", "skipped"]

_ROWS, _MOST_ROWS = 100, 500
_COLUMNS = 50
_SECONDS = 20.0
_MOST_CHARACTERS = 1_000_000
_FEED_COLUMNS = 3  # that the feed adds behind the table's: the change, its version, its time
_VERSIONS = 10  # whose changes are shown where none are asked for


@dataclass
class _Told:
    """Rows as texts, up to a number of rows and of characters, and why there are no more."""

    limit: int
    rows: list[list[str | None]] = field(default_factory=list)
    stopped: str | None = None
    length: int = 0

    def take(self, some: list[list[str | None]]) -> bool:
        """Take rows; whether there is room for more."""
        for row in some:
            self.length += sum(len(text or "") for text in row)
            if len(self.rows) >= self.limit:
                self.stopped = f"These are the first {self.limit:,} rows."
            elif self.length > _MOST_CHARACTERS:
                self.stopped = "The rows are long: these are the first ones."
            else:
                self.rows.append(row)
                continue
            return False
        return True

    async def read(self, batches: AsyncGenerator[pa.RecordBatch, None]) -> None:
        """Read as many as there is room for, within some seconds."""
        with anyio.move_on_after(_SECONDS) as scope:
            async with aclosing(batches):
                async for batch in batches:
                    part = batch.slice(0, self.limit + 1 - len(self.rows))
                    if not self.take(await in_thread(lambda these: list(cells(these)), part)):
                        return
        if scope.cancelled_caught:
            self.stopped = f"After {_SECONDS:g} s no more were looked for; ask for less."

    def answer(self, schema: pa.Schema, all_columns: int) -> dict[str, Any]:
        return {
            "columns": [
                {"name": shortened(each.name), "type": shortened(str(each.type), 100)}
                for each in schema
            ],
            "num_columns": all_columns,
            "rows": self.rows,
            "stopped": self.stopped,
        }


def _names(asked: Asked, known: Sequence[str]) -> list[str]:
    """The columns that are asked for, with commas between them; else the first fifty."""
    text = asked.text("columns")
    if text is None:
        return list(known[:_COLUMNS])
    return [name.strip() for name in text.split(",")][:_COLUMNS]


async def rows(table: Table, asked: Asked, _: Kept) -> Mapping[str, Any]:
    """Rows of a version for which a predicate is true."""
    snapshot = await asked_snapshot(table, asked)
    known = snapshot.delta_schema.names
    told = _Told(asked.number("limit", _MOST_ROWS) or _ROWS)
    where = asked.text("where")
    scan = snapshot.scan(_names(asked, known), where, limit=told.limit + 1, variant="json")
    await told.read(scan.batches())
    return {"version": snapshot.version, **told.answer(scan.schema, len(known))}


async def skipped(table: Table, asked: Asked, kept: Kept) -> Mapping[str, Any]:
    """How many files may hold rows for which a predicate is true, and how many there are."""
    snapshot = await asked_snapshot(table, asked)
    whole = await kept.of(snapshot, partial(file_totals, snapshot), "files")
    files = await snapshot.files(asked.text("where"), columns=["size"])
    sizes: Any = files.column("size")
    return {
        "num_files": whole.num_files,
        "num_bytes": whole.num_bytes,
        "num_kept": files.num_rows,
        "bytes_kept": sum(chunk.sum().as_py() or 0 for chunk in sizes.chunks),
    }


async def changes(table: Table, asked: Asked, _: Kept) -> Mapping[str, Any]:
    """Rows that the commits of some versions changed, in their order."""
    latest = await table.snapshot()
    since, until = asked.number("since"), asked.number("until")
    if since is None:
        last = latest.version if until is None else until
        since = max(0, last - _VERSIONS + 1)
    told = _Told(asked.number("limit", _MOST_ROWS) or _ROWS)
    known = latest.delta_schema.names
    schemas: list[pa.Schema] = []

    async def shown() -> AsyncGenerator[pa.RecordBatch, None]:
        feed = changes_of(table, since, until, columns=_names(asked, known))
        async with aclosing(feed) as batches:
            async for batch in batches:
                names = batch.schema.names
                some = batch.select([*names[-_FEED_COLUMNS:], *names[:-_FEED_COLUMNS]])
                schemas.append(some.schema)
                yield some

    await told.read(shown())
    schema = schemas[0] if schemas else latest.schema
    return {"since": since, **told.answer(schema, len(known))}
