"""What notebooks show: without I/O, and whatever a table holds as text."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pyarrow as pa

import adelta
import adelta.sync
from adelta.storage.local import LocalStore
from adelta.table import Table
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

NASTY = "<img src=x onerror='alert(1)'>&amp;<script>x</script>"


class _Read(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def shown(handle: object) -> str:
    """What a person reads of the HTML of a handle, which has nothing but a table's elements."""
    reader = _Read()
    html = handle._repr_html_()  # type: ignore[attr-defined]
    reader.feed(html)
    assert reader.tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p", "bdi"}
    assert len(html) < 100_000
    return reader.text


async def test_handles_are_shown_by_what_is_at_hand(tmp_path: Path) -> None:
    rows = pa.table({"city": ["Bern", "Oslo"], "km": [1, 2]})
    await adelta.write_table(tmp_path / "t", rows, partition_by=["city"])
    await adelta.checkpoint(tmp_path / "t")  # from here on a checksum counts the files
    async with adelta.open_table(tmp_path / "t") as table:
        scan = (await table.snapshot()).scan()
        assert repr(scan) == f"<Scan of file://{tmp_path}/t at version 0>"
    store = CountingStore(LocalStore(tmp_path / "t"))
    async with Table("file:///t", store=store) as table:
        assert "newest version seen\nnone yet" in shown(table)
        assert not store.requests
        snapshot = await table.snapshot()
        scan = snapshot.scan(["km"], "km > 1 and city = 'Bern'", limit=5)
        history = await adelta.history(table)
        before = len(store.requests)
        assert "newest version seen\n0" in shown(table)
        said = shown(snapshot)
        for expected in ("version\n0", "files\n2", "partitioned by\ncity", "km\nlong"):
            assert expected in said
        said = shown(scan)
        assert "limit\n5" in said
        assert "km > 1" in said
        assert "city\nstring" not in said
        assert "WRITE" in shown(history)
        assert len(store.requests) == before
        assert history == await adelta.history(table)
        assert pickle.loads(pickle.dumps(history)) == history


def test_the_blocking_handles_show_the_same_and_markup_is_text(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema({NASTY: pa.int64(), **{f"c{n}": pa.int64() for n in range(60)}})
    adelta.sync.create_table(
        uri,
        schema,
        name=NASTY,
        description=NASTY + "x" * 100_000,
        properties={"delta.columnMapping.mode": "name", "note": NASTY},
    )
    with adelta.sync.open_table(uri) as table:
        snapshot = table.snapshot()
        for handle in (table, snapshot):
            assert NASTY in shown(handle)
        assert "11 more" in shown(snapshot)
        assert f"`{NASTY}` > 1" in shown(snapshot.scan(where=f"`{NASTY}` > 1"))
        assert "CREATE TABLE" in shown(adelta.sync.history(table))
        unpickled = pickle.loads(pickle.dumps(snapshot))
        assert unpickled._repr_html_() is None or "version" in shown(unpickled)
