"""Which logical file an action is about, one by one and as columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.file_id import FileId, FileIds, canonical_path, file_ids, places_of_data

ROOT = "s3://lake/sales"


def vector(name: str, offset: int | None = None) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("u", name, 1, 1, offset)


def add(path: str, dv: DeletionVectorDescriptor | None = None) -> AddFile:
    return AddFile(path, {}, 1, 0, deletion_vector=dv)


def table(*files: AddFile) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {"path": f.path, "deletion_vector": f.deletion_vector and f.deletion_vector.to_json()}
        for f in files
    ]
    return pa.Table.from_pylist(rows, schema=ADD_SCHEMA)


@pytest.mark.parametrize(
    "spelling",
    [
        "p=a b/x.parquet",
        "p=a%20b/x.parquet",
        "s3://lake/sales/p=a%20b/x.parquet",
        "s3a://lake/sales/p=a%20b/x.parquet",
        "s3n://lake/sales/p=a b/x.parquet",
    ],
)
def test_one_path_has_one_id_however_it_is_spelt(spelling: str) -> None:
    assert FileId.of(add(spelling), ROOT) == ("p=a b/x.parquet", None)
    assert file_ids(table(add(spelling)), ROOT).to_pylist() == ["p=a b/x.parquet"]


@pytest.mark.parametrize(
    ("path", "root", "canonical"),
    [
        ("file:/t/a", "file:///t", "a"),
        ("file:///t/a", "file:///t/", "a"),
        ("/t/a", "file:///t", "a"),
        ("file:///my%20table/a%20b", "file:///my%20table", "a b"),
        ("file:///%C3%BC/a", "file:///%C3%BC", "a"),
        ("file:///a%2Bb/c", "file:///a%2Bb", "c"),
        ("file:///my%2520table/a", "file:///my%20table", "/my%20table/a"),
        ("s3://lake/a%20b/x", "s3://lake/a b", "x"),
        ("file:///tt/a", "file:///t", "/tt/a"),
        ("s3://other/a", ROOT, "s3://other/a"),
    ],
)
def test_only_what_lies_below_the_root_is_relative_to_it(
    path: str, root: str, canonical: str
) -> None:
    assert canonical_path(path, root) == canonical


def test_a_file_under_another_vector_is_another_logical_file_with_the_same_data() -> None:
    files = table(add("a"), add("a", vector("x")), add("a", vector("x", 4)), add("b"))
    assert len(set(file_ids(files, ROOT).to_pylist())) == 4
    ids = FileIds.of_table(files, ROOT)
    assert len(ids) == 4
    assert FileIds.of([add("a", vector("x"))], ROOT).without(ids) == FileIds()
    assert FileIds.of([add("b", vector("x"))], ROOT).without(ids).first() == ("b", "ux")
    shared = FileIds.of([RemoveFile("a", 1)], ROOT).sharing_data(files, ROOT)
    assert shared.column("path").to_pylist() == ["a", "a", "a"]


def test_the_place_of_a_file_is_that_of_the_first_with_its_data() -> None:
    found = places_of_data(table(add("a"), add("b")), table(add("b"), add("c"), add("b")), ROOT)
    assert found.to_pylist() == [None, 0]


FILES = st.lists(
    st.builds(
        add,
        st.sampled_from(["a", "a b", "a%20b", f"{ROOT}/a%20b", "b", "s3://lake/other/b"]),
        st.sampled_from([None, vector("x"), vector("x", 1), vector("y")]),
    ),
    max_size=8,
)


@given(FILES, FILES)
def test_sets_of_rows_and_sets_of_columns_are_the_same_sets(
    one: list[AddFile], other: list[AddFile]
) -> None:
    mine, theirs = ({FileId.of(file, ROOT).text for file in files} for files in (one, other))
    a, b = FileIds.of(one, ROOT), FileIds.of_table(table(*other), ROOT)
    assert a == FileIds.of_table(table(*one), ROOT)
    assert set((a | b).texts.to_pylist()) == mine | theirs
    assert set((a & b).texts.to_pylist()) == mine & theirs
    assert set(a.without(b).texts.to_pylist()) == mine - theirs
    assert len(a | b) == len(mine | theirs)
    paths = {FileId.of(file, ROOT).path for file in one}
    assert a.sharing_data(table(*other), ROOT).num_rows == sum(
        FileId.of(file, ROOT).path in paths for file in other
    )
