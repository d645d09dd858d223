from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.schema import types as t
from adelta.write.partitioner import split_by_partition


def test_rows_go_to_their_partition_and_keep_their_order() -> None:
    batch = pa.record_batch({"p": ["a", "b", "a", None, "b"], "v": [1, 2, 3, 4, 5]})
    found = split_by_partition(batch, [("p", t.STRING)])
    assert {part.values: part.rows.to_pydict() for part in found} == {
        ("a",): {"v": [1, 3]},
        ("b",): {"v": [2, 5]},
        (None,): {"v": [4]},
    }


def test_without_partition_columns_there_is_one_part() -> None:
    batch = pa.record_batch({"v": [1, 2]})
    (part,) = split_by_partition(batch, [])
    assert part.values == ()
    assert part.rows.equals(batch)


def test_one_partition_moves_no_row() -> None:
    batch = pa.record_batch({"p": [7, 7], "v": [[1], None]})
    (part,) = split_by_partition(batch, [("p", t.LONG)])
    assert part.values == ("7",)
    assert part.rows.to_pydict() == {"v": [[1], None]}


def test_values_that_the_log_writes_alike_share_a_partition() -> None:
    batch = pa.record_batch({"p": ["", None, "x"], "v": [1, 2, 3]})
    found = {
        part.values: part.rows.num_rows for part in split_by_partition(batch, [("p", t.STRING)])
    }
    assert found == {(None,): 2, ("x",): 1}


def test_timestamps_are_written_as_instants_in_utc() -> None:
    stamp = datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)
    batch = pa.record_batch({"p": pa.array([stamp], pa.timestamp("us", "UTC")), "v": [1]})
    (part,) = split_by_partition(batch, [("p", t.TIMESTAMP)])
    assert part.values == ("1969-12-31T23:59:59.123456Z",)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text("ab", max_size=2)),
            st.one_of(st.none(), st.integers(0, 2)),
            st.one_of(st.none(), st.booleans()),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_splitting_is_grouping(rows: list[tuple[str | None, int | None, bool | None]]) -> None:
    batch = pa.record_batch(
        {
            "s": pa.array([r[0] for r in rows], pa.string()),
            "i": pa.array([r[1] for r in rows], pa.int32()),
            "b": pa.array([r[2] for r in rows], pa.bool_()),
            "v": pa.array(range(len(rows))),
        }
    )
    expected: dict[tuple[str | None, ...], list[int]] = {}
    for number, (text, whole, flag) in enumerate(rows):
        key = (
            text or None,
            None if whole is None else str(whole),
            None if flag is None else str(flag).lower(),
        )
        expected.setdefault(key, []).append(number)
    parts = split_by_partition(batch, [("s", t.STRING), ("i", t.INTEGER), ("b", t.BOOLEAN)])
    assert {p.values: p.rows.column("v").to_pylist() for p in parts} == expected
    assert len(parts) == len(expected)
