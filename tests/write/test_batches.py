from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidOptionError
from adelta.write.batches import open_batches, record_batches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROWS = pa.table({"a": [1, 2, 3]})


class Exporter:
    """A data frame of another library: all that is known of it is the stream that it exports."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return ROWS.__arrow_c_stream__(requested_schema)


def sync_batches() -> Iterator[pa.RecordBatch]:
    yield from ROWS.to_batches()


async def async_batches() -> AsyncIterator[pa.RecordBatch]:
    for batch in ROWS.to_batches():
        yield batch


async def async_tables() -> AsyncIterator[pa.Table]:
    yield ROWS.slice(0, 1)
    yield ROWS.slice(1)


def sources() -> dict[str, Any]:
    return {
        "table": ROWS,
        "batch": ROWS.to_batches()[0],
        "reader": ROWS.to_reader(),
        "exporter": Exporter(),
        "list": ROWS.to_batches(),
        "list of tables": [ROWS],
        "generator": sync_batches(),
        "asynchronous generator": async_batches(),
        "asynchronous generator of tables": async_tables(),
    }


@pytest.mark.parametrize("kind", sources())
async def test_everything_that_holds_rows_is_taken(kind: str) -> None:
    batches = [batch async for batch in record_batches(sources()[kind])]
    assert pa.Table.from_batches(batches).to_pydict() == ROWS.to_pydict()


@pytest.mark.parametrize("kind", sources())
async def test_the_schema_is_known_before_the_rows_are_taken(kind: str) -> None:
    schema, batches = await open_batches(sources()[kind])
    assert schema == ROWS.schema
    assert sum([batch.num_rows async for batch in batches]) == 3


async def test_a_table_without_rows_has_a_schema_and_an_iterator_without_batches_none() -> None:
    schema, batches = await open_batches(ROWS.slice(0, 0))
    assert schema == ROWS.schema
    assert [batch async for batch in batches] == []
    schema, batches = await open_batches([])
    assert schema is None
    assert [batch async for batch in batches] == []


@pytest.mark.parametrize("data", [7, "text", b"bytes", {"a": [1]}, [1], [{"a": 1}], None])
async def test_what_holds_no_rows_is_refused_by_its_type(data: Any) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be written: hand over an Arrow table"):
        _ = [batch async for batch in record_batches(data)]


async def test_rows_in_plain_python_are_told_what_makes_a_table_of_them() -> None:
    for data in ([{"a": 1}], {"a": [1]}):
        with pytest.raises(InvalidOptionError, match=r"a dict cannot .*\.from_pylist one of rows"):
            _ = [batch async for batch in record_batches(data)]  # type: ignore[arg-type]


async def test_nothing_in_place_of_a_batch_is_not_the_end() -> None:
    with pytest.raises(InvalidOptionError, match=r"a NoneType cannot be written"):
        _ = [batch async for batch in record_batches(iter([*ROWS.to_batches(), None, ROWS]))]


async def test_an_arrow_stream_of_one_column_without_names_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no rows of columns"):
        _ = [b async for b in record_batches(pa.chunked_array([[1, 2]]))]


async def test_a_large_batch_is_cut_into_pieces() -> None:
    large = pa.record_batch({"a": pa.array(range(1_000_000))})
    wide = pa.record_batch({"t": pa.array(["x" * 1_000_000] * 100)})
    for batch in (large, wide):
        pieces = [piece async for piece in record_batches(batch)]
        assert len(pieces) > 5
        assert max(piece.nbytes for piece in pieces) <= 16 * 1024 * 1024
        assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))
