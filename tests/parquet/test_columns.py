from __future__ import annotations

import pyarrow as pa
import pytest

from adelta.parquet.byte_ranges import join_adjacent, subtract
from adelta.parquet.footer.columns import ColumnTree, column_tree, evenly

SCHEMA = pa.schema(
    [
        pa.field("a", pa.struct([("b", pa.struct([("c", pa.int32()), ("d", pa.string())]))])),
        pa.field("a.b", pa.int32()),
        pa.field("l", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())]))),
        pa.field("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("x.y", pa.struct([("z.w", pa.int32()), ("z", pa.struct([("w", pa.int8())]))])),
    ]
)


def leaves(name: str | tuple[str, ...]) -> list[int]:
    tree = ColumnTree(SCHEMA)
    chain = tree.find(name)
    return tree.leaf_indices([chain]) if chain else []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a", [0, 1]),
        ("a.b", [2]),  # a literal name goes before a path
        (("a", "b"), [0, 1]),
        (("a.b",), [2]),
        ("a.b.c", [0]),  # "a.b" has nothing below, so "a" it is
        ("a.b.d", [1]),
        ("l.element.y", [4]),
        (("l", "element"), [3, 4]),
        ("x.y.z.w", [7]),
        (("x.y", "z", "w"), [8]),
        ("nothing", []),
        ("a.", []),
        ("", []),
        ((), []),
    ],
)
def test_a_name_finds_its_leaves(name: str | tuple[str, ...], found: list[int]):
    assert leaves(name) == found


def test_a_map_is_never_split():
    assert leaves("m") == leaves("m.key") == leaves("m.value.element") == [5, 6]


def test_physical_paths_are_those_that_parquet_writes():
    paths = [
        ".".join(leaf.physical_path) for c in ColumnTree(SCHEMA).columns for leaf in c.leaves()
    ]
    assert paths[3:7] == [
        "l.list.element.x",
        "l.list.element.y",
        "m.key_value.key",
        "m.key_value.value.list.element",
    ]


def test_ranges_that_touch_are_joined_up_to_the_limit_and_overlaps_always():
    assert join_adjacent([(4, 6), (0, 4), (6, 9), (5, 5)], limit=6) == [(0, 6), (6, 9)]
    assert join_adjacent([(0, 9), (3, 12)], limit=1) == [(0, 12)]


def test_what_is_held_is_not_asked_for_again():
    assert subtract([(0, 10), (20, 30)], [(5, 22), (28, 40)]) == [(0, 5), (22, 28)]
    assert subtract([(5, 6)], [(0, 10)]) == []


def test_files_of_one_schema_share_its_tree_and_others_have_their_own():
    fields = {"a": pa.int64(), "b": pa.struct({"c": pa.string()})}
    tree = column_tree(pa.schema(fields))
    assert column_tree(pa.schema(fields)) is tree
    for number in range(20):
        other = pa.schema({**fields, f"more {number}": pa.int32()})
        assert column_tree(other).num_leaves == 3
    assert column_tree(pa.schema({"a": pa.int64()})).num_leaves == 1
    assert column_tree(pa.schema(fields)).num_leaves == 2


@pytest.mark.parametrize(
    ("sizes", "most", "parts"),
    [
        ([], 2, []),
        ([5], 2, [(0, 1)]),
        ([1, 1, 1, 1], 1, [(0, 4)]),
        ([1, 1, 1, 1], 2, [(0, 2), (2, 4)]),
        ([9, 1, 1, 1], 2, [(0, 1), (1, 4)]),
        ([1, 1, 1, 9], 2, [(0, 3), (3, 4)]),
        ([1, 9, 1], 2, [(0, 2), (2, 3)]),
        ([2, 2, 2], 8, [(0, 1), (1, 2), (2, 3)]),
        ([0, 0, 0], 2, [(0, 3)]),
        ([3, 3, 3, 3, 3, 3], 3, [(0, 2), (2, 4), (4, 6)]),
    ],
)
def test_columns_are_cut_into_parts_of_about_the_same_size(
    sizes: list[int], most: int, parts: list[tuple[int, int]]
) -> None:
    assert evenly(sizes, most) == parts
