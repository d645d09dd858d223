from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError, ObjectNotFoundError
from adelta.parquet.footer.fetch_footer import DEFAULT_TAIL, fetch_footer, read_metadata
from adelta.parquet.reader import ParquetFile
from tests.parquet.recording_store import RecordingStore, parquet_bytes, stored

SMALL = pa.table({"x": list(range(100))})
WIDE = pa.table({f"column_with_a_long_name_{i:04}": [i] for i in range(1500)})


async def test_a_footer_within_the_tail_costs_one_request():
    store = await stored(SMALL)
    metadata = await read_metadata(store, "f.parquet")
    assert metadata.num_rows == 100
    assert store.asked() == [("suffix", DEFAULT_TAIL)]


async def test_a_footer_longer_than_the_tail_costs_one_more_request_for_the_missing_bytes_alone():
    data = parquet_bytes(WIDE)
    length = int.from_bytes(data[-8:-4], "little")
    assert length > DEFAULT_TAIL
    store = await stored(WIDE)
    metadata = await read_metadata(store, "f.parquet")
    assert metadata.num_columns == 1500
    missing = (len(data) - 8 - length, len(data) - DEFAULT_TAIL)
    assert store.asked() == [("suffix", DEFAULT_TAIL), ("range", missing)]


@pytest.mark.parametrize("spare", [-1, 0, 1])
async def test_a_footer_that_just_fits_or_just_does_not_is_read(spare: int):
    length = int.from_bytes(parquet_bytes(SMALL)[-8:-4], "little")
    store = await stored(SMALL)
    fetched = await fetch_footer(store, "f.parquet", tail=length + 8 + spare)
    assert fetched.parse().num_rows == 100
    assert len(fetched.data) == max(0, spare)
    assert len(store.asked()) == (2 if spare < 0 else 1)


async def test_a_tail_shorter_than_the_trailer_is_enough():
    assert (await read_metadata(await stored(SMALL), "f.parquet", tail=1)).num_rows == 100


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"PAR1", "too few"),
        (b"PAR1PAR1", "too few"),
        (b"not parquet at all, sorry", "is no Parquet file"),
        (parquet_bytes(SMALL)[:-1], "is no Parquet file"),
        (b"PAR1" + b"x" * 20 + (20).to_bytes(4, "little") + b"PARE", "encrypted"),
        (b"PAR1" + b"x" * 20 + (21).to_bytes(4, "little") + b"PAR1", "footer of 21 bytes"),
        (b"PAR1" + b"x" * 20 + b"\xff\xff\xff\xff" + b"PAR1", "footer of 4,294,967,295 bytes"),
        (b"PAR1" + bytes(24) + b"PAR1", "footer of 0 bytes"),
        (b"PAR1" + b"\x99" * 20 + (20).to_bytes(4, "little") + b"PAR1", "cannot be read"),
    ],
)
async def test_what_is_no_whole_parquet_is_an_error_that_names_the_path(data: bytes, says: str):
    store = RecordingStore()
    await store.put("part-1.parquet", data)
    store.asked()
    with pytest.raises(InvalidTableError, match=says) as caught:
        await ParquetFile.open(store, "part-1.parquet")
    assert "part-1.parquet" in str(caught.value)
    assert len(store.asked()) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


async def test_no_footer_length_makes_a_request_reach_outside_the_object():
    data = parquet_bytes(WIDE)
    for length in (len(data) - 12, len(data) - 11, len(data), 2**31 - 1, 2**32 - 1):
        store = RecordingStore()
        await store.put("f", data[:-8] + length.to_bytes(4, "little") + b"PAR1")
        store.asked()
        with pytest.raises(InvalidTableError):
            await read_metadata(store, "f")
        for kind, detail in store.asked():
            if kind == "range":
                assert 4 <= detail[0] < detail[1] <= len(data)


async def test_every_truncation_and_every_flipped_footer_byte_is_a_table_error_or_readable():
    data = parquet_bytes(pa.table({"s": ["a", "b"], "n": [1, None]}))
    length = int.from_bytes(data[-8:-4], "little")
    store = RecordingStore()
    for cut in range(0, len(data), 7):
        await store.put("f", data[:cut])
        with pytest.raises(InvalidTableError):
            await ParquetFile.open(store, "f")
    for at in range(len(data) - 8 - length, len(data)):
        await store.put("f", data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            file = await ParquetFile.open(store, "f")
            await file.read()
        except InvalidTableError:
            pass


async def test_a_missing_object_is_a_storage_error():
    with pytest.raises(ObjectNotFoundError):
        await ParquetFile.open(RecordingStore(), "nowhere.parquet")
