"""Every decoder of something that others wrote: it answers, or raises one error of adelta's.

The inputs are those of `tests/fuzz/corpus`, damaged. What is asserted beyond that is said by name.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from adelta.errors import (
    AdeltaError,
    InvalidExpressionError,
    InvalidPropertyError,
    InvalidTableError,
    RootNotAllowedError,
    UnsupportedFeatureError,
)
from adelta.kernel import last_checkpoint
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.actions.json import decode_commits
from adelta.kernel.checksum.json import decode, encode
from adelta.kernel.data_skipping.exact import exact_row_counts
from adelta.kernel.data_skipping.prune import prune_files
from adelta.kernel.deletion_vector import z85
from adelta.kernel.deletion_vector.descriptor import vector_path
from adelta.kernel.expressions.nodes import columns_of
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.file_id import canonical_path
from adelta.kernel.file_set import add_files, remove_files
from adelta.kernel.log_path import parse_log_path, sidecar_path
from adelta.kernel.partition import parse_partition_values, serialise_partition_values
from adelta.kernel.replay import reconcile
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.json import schema_from_string, schema_to_string
from adelta.kernel.table_properties import PROPERTIES
from adelta.parquet.footer.footer_parts import (
    GroupParts,
    assembled_footer,
    footer_parts,
    moved_offset_index,
)
from adelta.parquet.skip.bloom_filter import SplitBlockFilter
from adelta.parquet.skip.page_index import decode_pages, index_places
from adelta.parquet.thrift import ThriftError
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.storage.roots import StoreRoots
from tests.fuzz.mutation import damaged, damaged_text, fuzzing

if TYPE_CHECKING:
    from collections.abc import Callable

    Count = Callable[[str], None]

TYPES: tuple[t.DataType, ...] = (
    t.STRING, t.LONG, t.INTEGER, t.SHORT, t.BYTE, t.FLOAT, t.DOUBLE, t.BOOLEAN, t.BINARY, t.DATE,
    t.TIMESTAMP, t.TIMESTAMP_NTZ, t.DecimalType(9, 2), t.DecimalType(38, 18),
)  # fmt: skip
SCHEMA = t.StructType(
    (
        *(t.StructField(f"c{number}", kind) for number, kind in enumerate(TYPES)),
        t.StructField("s", t.StructType((t.StructField("x", t.LONG),))),
    )
)


@fuzzing
@given(data=damaged("commit"))
def test_commits(count: Count, data: bytes) -> None:
    count("commits")
    with suppress(InvalidTableError):
        batch = decode_commits([(7, data)])
        tail = reconcile([batch], "memory://of/tests")
        for file in [*add_files(tail.adds), *remove_files(tail.tombstones)]:
            assert isinstance(file.path, str)
            assert file.deletion_vector is None or file.deletion_vector.cardinality >= 0


@fuzzing
@given(data=damaged("last_checkpoint"))
def test_hints_are_never_an_error(count: Count, data: bytes) -> None:
    count("_last_checkpoint")
    hint = last_checkpoint.decode(data)
    if hint is not None:
        assert hint.version >= 0
        assert last_checkpoint.decode(last_checkpoint.encode(hint)) is not None


@fuzzing
@given(data=damaged("crc"))
def test_version_checksums(count: Count, data: bytes) -> None:
    count("version checksums")
    with suppress(InvalidTableError):
        stated = decode(data, "x.crc")
        assert stated.num_files >= 0
        encode(stated)


@fuzzing
@given(text=damaged_text("partition"), kind=st.sampled_from(TYPES))
def test_partition_values(count: Count, text: str, kind: t.DataType) -> None:
    """A value that is read can be written, and reads as itself again."""
    count("partition values")
    with suppress(InvalidTableError):
        value = parse_partition_values(pa.array([text]), kind, column="p")
        written = serialise_partition_values(value, kind)
        if text:  # the empty text is a null by the time it is written
            assert parse_partition_values(written, kind).equals(value) or "nan" in str(value)


@fuzzing
@given(text=damaged_text("path"), local=st.booleans(), allowed=st.sampled_from(["", "/lake", "/"]))
def test_paths(count: Count, text: str, local: bool, allowed: str) -> None:
    """A path stays below the root of the table, or below one that is allowed."""
    count("paths")
    canonical_path(text, "memory://of/tests")
    store = LocalStore("/lake/table") if local else MemoryStore("of", "tests")
    roots = StoreRoots(store, {"aws_region": "x", "allowed_roots": allowed})
    with suppress(InvalidTableError, RootNotAllowedError, UnsupportedFeatureError):
        found, below = roots.locate(text, decode_path(text))
        assert "\0" not in below
        if found is not store:
            assert isinstance(found, LocalStore)
            assert found.root == allowed
            assert decode_path(text).startswith("/") or text.lower().startswith("file:/")
        if isinstance(found, LocalStore):
            place = os.path.normpath(f"{found.root}/{below}")
            assert place.startswith(found.root.rstrip("/") + "/")


@fuzzing
@given(text=damaged_text("path"))
def test_names_in_the_log(count: Count, text: str) -> None:
    count("names in the log")
    parsed = parse_log_path("_delta_log/" + text)
    assert parsed is None or 0 <= parsed.version < 2**63
    with suppress(InvalidTableError):
        name = sidecar_path(decode_path(text)).removeprefix("_delta_log/_sidecars/")
        assert "/" not in name
        assert name not in ("", ".", "..")


@fuzzing
@given(text=damaged_text("sql"))
def test_predicates(count: Count, text: str) -> None:
    count("predicates")
    with suppress(InvalidExpressionError):
        node = bind_predicate(parse_expression(text), SCHEMA)
        assert all(SCHEMA.field(path[0]) for path in columns_of(node))


@fuzzing
@given(text=damaged_text("schema"))
def test_schema_strings(count: Count, text: str) -> None:
    """A schema that is read can be written, and reads as itself again."""
    count("schema strings")
    with suppress(InvalidTableError):
        schema = schema_from_string(text)
        assert schema_from_string(schema_to_string(schema)) == schema
        with suppress(UnsupportedFeatureError):
            to_arrow_schema(schema)


COLUMN_INDEX, OFFSET_INDEX = (
    memoryview(Path(__file__).with_name("corpus").joinpath("parquet_index", name).read_bytes())
    for name in ("column_index", "offset_index")
)
PREDICATES = [
    bind_predicate(parse_expression(text), SCHEMA)
    for text in (
        "c0 > 'm' and c1 = 7",
        "c6 < 1.5 or c9 >= DATE '1970-01-01'",
        "c10 = TIMESTAMP '1970-01-01 00:00:00Z' or c12 <= 1.25",
        "s.x is null or c7",
        "c13 > 0.000000000000000001 and c8 is not null",
    )
]


@fuzzing
@given(texts=st.lists(damaged_text("stats"), min_size=1, max_size=3))
def test_statistics_are_never_an_error(count: Count, texts: list[str]) -> None:
    """Nor do they multiply files; what they say of counts is never below none."""
    count("statistics")
    rows = [{"path": str(n), "partition_values": [], "stats": text} for n, text in enumerate(texts)]
    files = pa.Table.from_pylist(rows, schema=ADD_SCHEMA)
    for node in PREDICATES:
        plan = plan_columns(
            SCHEMA, columns=None, where=node, partition_columns=(), mapping_mode="none"
        )
        kept = prune_files(files, node, plan).column("path").to_pylist()
        assert set(kept) <= set(files.column("path").to_pylist())
        assert len(kept) == len(set(kept))
    counted = exact_row_counts(files, None, ())
    assert counted is None or counted[0] >= 0


@fuzzing
@given(text=damaged_text("property"), known=st.sampled_from(PROPERTIES))
def test_table_properties(count: Count, text: str, known: object) -> None:
    count("table properties")
    with suppress(InvalidPropertyError):
        known.read({known.key: text})  # type: ignore[attr-defined]


@fuzzing
@given(data=damaged("parquet_index"))
def test_page_indexes_and_bloom_filters(count: Count, data: bytes) -> None:
    """Whatever is taken from them lies in the file, and is about rows that there are."""
    count("page indexes and Bloom filters")
    view = memoryview(data)
    with suppress(ThriftError):
        SplitBlockFilter(view).may_contain(b"x")
    with suppress(ThriftError):
        for place in index_places(view, [(0, 0), (1, 1)], end=1000).values():
            assert 0 < place.offset_index[0] < place.offset_index[1] <= 1000
    for column_index, offset_index in ((view, OFFSET_INDEX), (COLUMN_INDEX, view)):
        with suppress(ThriftError):
            pages = decode_pages(column_index, offset_index, rows=20, end=1000)
            assert list(pages.first_rows) == sorted({*pages.first_rows, 0})
            assert pages.first_rows[-1] < 20
            assert len(pages.minima) == len(pages.maxima) == len(pages.first_rows)
    with suppress(ThriftError):
        assert moved_offset_index(moved_offset_index(data, 1000), -1000) is not None
    with suppress(ThriftError):
        parts = footer_parts(data)
        moved = [
            GroupParts(group.num_rows, tuple(c.moved(99, None, None) for c in group.chunks))
            for group in parts.groups
        ]
        again = footer_parts(assembled_footer(parts, moved)[:-8])
        assert again.is_alike(parts)
        assert again.groups == tuple(moved)


class _Descriptor:
    def __init__(self, kind: str, text: str) -> None:
        self.storage_type, self.path_or_inline_dv, self.size_in_bytes = kind, text, 40


@fuzzing
@given(text=damaged_text("z85"), kind=st.sampled_from("uipx"))
def test_descriptors_of_deletion_vectors(count: Count, text: str, kind: str) -> None:
    count("deletion vectors' descriptors")
    with suppress(InvalidTableError):
        assert z85.encode(z85.decode(text)) is not None
    with suppress(AdeltaError):
        vector_path(_Descriptor(kind, text))
