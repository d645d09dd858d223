"""Rows of columns that are null nearly everywhere: the same as Arrow's, or none at all."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adelta.parquet.rare.rows import RareColumns, UnusualFileError
from adelta.parquet.thrift import ThriftError, read_struct

MARKERS = {"protocol": "minReaderVersion", "metaData": "id", "domainMetadata": "domain"}
TEXTS = pa.list_(pa.field("element", pa.string()))
SCHEMA = pa.schema(
    [
        ("add", pa.struct([("path", pa.string()), ("stats", pa.struct([("n", pa.int64())]))])),
        (
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("readerFeatures", TEXTS)]),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    (
                        "format",
                        pa.struct(
                            [
                                ("provider", pa.string()),
                                ("options", pa.map_(pa.string(), pa.string())),
                            ]
                        ),
                    ),
                    ("partitionColumns", TEXTS),
                    ("createdTime", pa.int64()),
                    ("configuration", pa.map_(pa.string(), pa.string())),
                ]
            ),
        ),
        ("domainMetadata", pa.struct([("domain", pa.string()), ("removed", pa.bool_())])),
    ]
)


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


texts = st.text(max_size=5)
maps = st.lists(st.tuples(texts, some(texts)), max_size=3)
protocols = st.fixed_dictionaries(
    {
        "minReaderVersion": st.integers(-(2**31), 2**31 - 1),
        "readerFeatures": some(st.lists(some(texts), max_size=12)),
    }
)
metadata = st.fixed_dictionaries(
    {
        "id": texts,
        "format": some(st.fixed_dictionaries({"provider": some(texts), "options": some(maps)})),
        "partitionColumns": some(st.lists(some(texts), max_size=3)),
        "createdTime": some(st.integers(-(2**63), 2**63 - 1)),
        "configuration": some(maps),
    }
)
domains = st.fixed_dictionaries({"domain": texts, "removed": some(st.booleans())})
rare = st.one_of(
    st.tuples(st.just("protocol"), protocols),
    st.tuples(st.just("metaData"), metadata),
    st.tuples(st.just("domainMetadata"), domains),
)
runs = st.lists(st.tuples(st.integers(0, 40), rare), max_size=6)
options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "gzip", "zstd"]),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "data_page_size": st.sampled_from([1, 64, 1 << 20]),
        "row_group_size": st.sampled_from([29, 500, 1 << 20]),
        "write_statistics": st.booleans(),
        "write_page_checksum": st.booleans(),
        "store_schema": st.booleans(),
    }
)


def encoded(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, **chosen: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, **chosen)
    return sink.getvalue()


def footer_of(data: bytes) -> tuple[bytes, int]:
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[end:], end


def rare_rows(data: bytes, markers: dict[str, str] = MARKERS) -> dict[str, list[dict[str, Any]]]:
    columns = RareColumns.of_footer(*footer_of(data), markers)
    view = memoryview(data)
    return columns.plan(markers).rows(lambda place: view[slice(*place)])


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(runs, st.integers(0, 2000), options)
def test_rows_are_those_that_were_written(
    given_rows: list[tuple[int, tuple[str, Any]]], behind: int, chosen: dict[str, Any]
) -> None:
    rows: list[dict[str, Any]] = []
    for before, (name, body) in given_rows:
        rows += [{"add": {"path": "x", "stats": None}}] * before
        rows.append({name: body})
    rows += [{"add": {"path": "y", "stats": {"n": 1}}}] * behind
    data = encoded(rows, **chosen)
    found = rare_rows(data)
    assert found == {name: [body for _, (n, body) in given_rows if n == name] for name in MARKERS}
    columns = RareColumns.of_footer(*footer_of(data), MARKERS)
    described = pq.read_metadata(io.BytesIO(data))
    assert (columns.num_rows, columns.num_row_groups) == (
        described.num_rows,
        described.num_row_groups,
    )


SAMPLE = [
    *[{"add": {"path": "x", "stats": None}}] * 30,
    {"protocol": {"minReaderVersion": 3, "readerFeatures": ["a", "b", "a"]}},
    {
        "metaData": {
            "id": "m",
            "format": {"provider": "parquet", "options": []},
            "partitionColumns": ["p"],
            "createdTime": 7,
            "configuration": [("k", "v"), ("l", None)],
        }
    },
    *[{"add": {"path": "y", "stats": {"n": 2}}}] * 30,
]


@pytest.mark.parametrize("chosen", [{}, {"write_page_checksum": True, "data_page_version": "2.0"}])
def test_whatever_is_damaged_is_left_to_arrow(chosen: dict[str, Any]) -> None:
    """No byte that is changed makes anything else of a file than an answer or a refusal."""
    data = encoded(SAMPLE, compression="snappy", **chosen)
    whole = rare_rows(data)
    refused = 0
    choice = Random(7)
    for place in choice.sample(range(4, len(data)), 500):
        damaged = bytearray(data)
        damaged[place] ^= choice.randint(1, 255)
        try:
            found = rare_rows(bytes(damaged))
        except UnusualFileError:
            refused += 1
            continue
        assert found.keys() == whole.keys()
    assert refused > 50


def test_a_page_whose_checksum_is_wrong_is_refused() -> None:
    data = encoded(SAMPLE, compression="none", use_dictionary=False, write_page_checksum=True)
    place = data.rindex(b"parquet", 0, footer_of(data)[1])
    damaged = data[:place] + b"P" + data[place + 1 :]
    assert rare_rows(data)["metaData"][0]["format"]["provider"] == "parquet"
    with pytest.raises(UnusualFileError, match="damaged"):
        rare_rows(damaged)


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("minReaderVersion", pa.int32()), ("x", pa.float64())]),
        pa.struct([("minReaderVersion", pa.int32()), ("x", pa.list_(TEXTS))]),
        pa.struct([("minReaderVersion", pa.int32()), ("x", pa.binary())]),
        pa.struct([("minReaderVersion", pa.int32()), ("x", pa.timestamp("ms"))]),
        pa.int32(),
    ],
)
def test_a_column_of_another_kind_stands_in_the_way_of_no_other(kind: pa.DataType) -> None:
    schema = pa.schema([("protocol", kind), SCHEMA.field("metaData"), ("z", pa.int8())])
    data = encoded([{"metaData": SAMPLE[31]["metaData"]}], schema)
    assert rare_rows(data, {"metaData": "id"})["metaData"] == [SAMPLE[31]["metaData"]]
    with pytest.raises(UnusualFileError, match="kind"):
        rare_rows(data)


def test_a_column_or_a_marker_that_is_not_there_has_no_rows() -> None:
    schema = pa.schema([("protocol", pa.struct([("minWriterVersion", pa.int32())]))])
    data = encoded([{"protocol": {"minWriterVersion": 2}}], schema)
    assert rare_rows(data) == {"protocol": [], "metaData": [], "domainMetadata": []}


@pytest.mark.parametrize("chosen", [{"compression": "lz4"}, {"column_encoding": "DELTA"}])
def test_a_codec_or_an_encoding_that_is_not_known_is_left_to_arrow(chosen: dict[str, Any]) -> None:
    if "column_encoding" in chosen:
        leaf = "metaData.id"
        chosen = {"column_encoding": {leaf: "DELTA_BYTE_ARRAY"}, "use_dictionary": False}
    with pytest.raises(UnusualFileError, match=r"codec|encoding"):
        rare_rows(encoded(SAMPLE, **chosen))


def test_a_long_footer_is_left_to_arrow() -> None:
    schema = pa.schema([SCHEMA.field("protocol"), *((f"c{n}", pa.int8()) for n in range(6000))])
    data = encoded([{"protocol": SAMPLE[30]["protocol"]}], schema)
    with pytest.raises(UnusualFileError, match="footer"):
        rare_rows(data)


def test_a_bound_that_reads_like_a_column_is_left_to_arrow() -> None:
    """Chunks are found in a footer by the bytes of their paths, which a text may have as well."""
    path = "\x19\x28\x08protocol\x10minReaderVersion"
    assert path.encode() in encoded(SAMPLE)
    with pytest.raises(UnusualFileError, match="once a row group"):
        rare_rows(encoded([*SAMPLE, {"add": {"path": path, "stats": None}}]))


def test_very_many_rows_are_left_to_arrow() -> None:
    data = encoded([SAMPLE[30]] * 20_000)
    with pytest.raises(UnusualFileError, match="many"):
        rare_rows(data)


def test_a_structure_ends_within_its_bytes() -> None:
    footer, _ = footer_of(encoded(SAMPLE))
    end = len(footer) - 8
    assert read_struct(footer)[1] == end
    for cut in range(end - 1):
        with pytest.raises(ThriftError):
            read_struct(footer[:cut])
    with pytest.raises(ThriftError, match="nested"):
        read_struct(b"\x1c" * 40)
