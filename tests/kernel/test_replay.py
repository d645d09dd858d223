"""Action reconciliation: what commits leave."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.actions.json import ActionBatch, decode_commits, tables_of_adds
from adelta.kernel.file_id import file_ids
from adelta.kernel.file_set import FileSet
from adelta.kernel.replay import anti_join, anti_join_mask, reconcile

Line = dict[str, Any]


ROOT = "memory://lake/t"


def add(path: str, vector: str | None = None, **more: Any) -> Line:
    body = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, **more}
    return {"add": body | _vector(vector)}


def remove(path: str, vector: str | None = None) -> Line:
    return {"remove": {"path": path, "dataChange": True} | _vector(vector)}


def _vector(unique: str | None) -> Line:
    if unique is None:
        return {}
    descriptor = {"storageType": "i", "pathOrInlineDv": unique, "sizeInBytes": 1, "cardinality": 1}
    return {"deletionVector": descriptor}


def batch(*commits: list[Line], start: int = 0) -> ActionBatch:
    return decode_commits(
        [(v, b"\n".join(map(orjson.dumps, lines))) for v, lines in enumerate(commits, start)]
    )


def live(*batches: ActionBatch, root: str = ROOT) -> set[str]:
    tail = reconcile(batches, root)
    return set(file_ids(tail.adds, root).to_pylist())


def test_a_later_remove_takes_an_add_away_and_stays_as_a_tombstone() -> None:
    tail = reconcile([batch([add("a"), add("b")], [remove("a")])], ROOT)
    assert tail.adds.column("path").to_pylist() == ["b"]
    assert tail.tombstones.column("path").to_pylist() == ["a"]


def test_commits_of_few_files_leave_the_same_together_as_one_by_one() -> None:
    """With large ones between them, and those of which tables were made before."""
    chance = Random(3)
    commits: list[list[Line]] = []
    for _ in range(300):
        count = chance.choice([0, 1, 1, 2, 40])
        paths = [f"f{chance.randrange(200)}" for _ in range(count)]
        commits.append([chance.choice([add, remove])(path) for path in {*paths}])
    together = [
        decode_commits([(v, b"\n".join(map(orjson.dumps, lines)))], lazily=True)
        for v, lines in enumerate(commits)
    ]
    assert together[7].adds.num_rows + together[7].removes.num_rows > 0
    first, rest = reconcile(together[:150], ROOT), together[150:]
    found, expected = reconcile(rest, ROOT, onto=first), reconcile([batch(*commits)], ROOT)
    assert {*found.adds["path"].to_pylist()} == {*expected.adds["path"].to_pylist()}
    assert {*found.tombstones["path"].to_pylist()} == {*expected.tombstones["path"].to_pylist()}
    assert sum(len(table) for table in tables_of_adds(together)) == sum(
        "add" in line for lines in commits for line in lines
    )
    assert len(tables_of_adds(together[150:152])) == 1


def test_a_later_add_takes_a_tombstone_away() -> None:
    tail = reconcile([batch([add("a")], [remove("a")], [add("a")])], ROOT)
    assert tail.adds.column("path").to_pylist() == ["a"]
    assert tail.tombstones.num_rows == 0


def test_an_add_of_a_live_file_replaces_its_statistics() -> None:
    tail = reconcile([batch([add("a", stats="old")], [add("a", stats="new")])], ROOT)
    assert tail.adds.column("stats").to_pylist() == ["new"]


def test_a_new_deletion_vector_replaces_the_file_without_one() -> None:
    assert live(batch([add("a")], [add("a", "v1"), remove("a")])) == {"a\x00iv1"}


def test_removing_one_deletion_vector_leaves_the_file_with_another() -> None:
    first = batch([add("a", "v1")])
    second = batch([add("a", "v2"), remove("a", "v1")], start=1)
    assert live(first, second) == {"a\x00iv2"}


def test_a_remove_matches_whatever_way_its_path_is_written() -> None:
    commits = batch([add("part=a%20b/x"), add("y")], [remove("s3://bucket/t/part=a%20b/x")])
    assert live(commits, root="s3a://bucket/t") == {"y"}
    commits = batch([add("file:///t/x")], [remove("/t/x")])
    assert live(commits) == set()


def test_a_path_is_decoded_once() -> None:
    assert live(batch([add("p=a%2525/x"), add("p=a%25/x")])) == {"p=a%25/x", "p=a%/x"}


def test_rows_of_a_checkpoint_that_the_commits_name_do_not_survive() -> None:
    checkpoint = reconcile([batch([add("a"), add("b", "v1"), add("c"), add("d%20e")])], ROOT).adds
    tail = reconcile([batch([remove("a"), remove("b"), remove("d e")], start=1)], ROOT)
    mask = anti_join_mask(checkpoint, tail, ROOT)
    assert mask is not None
    kept = FileSet(checkpoint).filter(mask)
    assert sorted(file.path for file in kept.rows()) == ["b", "c"]


def test_a_tail_that_names_no_file_of_a_checkpoint_costs_no_copy() -> None:
    checkpoint = reconcile([batch([add("a")])], ROOT).adds
    assert anti_join_mask(checkpoint, reconcile([batch([add("b")], start=1)], ROOT), ROOT) is None


actions = st.tuples(
    st.sampled_from(["add", "remove"]),
    st.sampled_from(["a", "b c", "d%"]),
    st.sampled_from([None, "v1", "v2"]),
)


@given(st.lists(st.lists(actions, max_size=4, unique_by=lambda a: a[1:]), max_size=6), st.data())
def test_reconciliation_equals_replaying_one_action_after_the_other(
    history: list[list[tuple[str, str, str | None]]], data: st.DataObject
) -> None:
    model: dict[tuple[str, str | None], str] = {}
    commits = []
    for commit in history:
        lines = []
        for kind, path, vector in commit:
            model[path, vector] = kind
            written = path.replace("%", "%25").replace(" ", "%20")
            lines.append((add if kind == "add" else remove)(written, vector))
        commits.append(lines)
    cut = data.draw(st.integers(0, len(commits)))
    tail = reconcile([batch(*commits[:cut]), batch(*commits[cut:], start=cut)], ROOT)

    def keys(kind: str) -> set[str]:
        named = {k for k, v in model.items() if v == kind}
        return {path if vector is None else f"{path}\x00i{vector}" for path, vector in named}

    assert set(file_ids(tail.adds, ROOT).to_pylist()) == keys("add")
    assert set(file_ids(tail.tombstones, ROOT).to_pylist()) == keys("remove")
    assert pa.types.is_string(tail.keys.type)


@given(st.lists(st.lists(actions, max_size=4, unique_by=lambda a: a[1:]), max_size=6), st.data())
def test_reconciling_onto_what_was_reconciled_equals_reconciling_all(
    history: list[list[tuple[str, str, str | None]]], data: st.DataObject
) -> None:
    make = {"add": add, "remove": remove}
    commits = [[make[kind](path, vector) for kind, path, vector in one] for one in history]
    cut = data.draw(st.integers(0, len(commits)))
    early, late = batch(*commits[:cut]), batch(*commits[cut:], start=cut)
    whole = reconcile([early, late], ROOT)
    stepwise = reconcile([late], ROOT, onto=reconcile([early], ROOT))
    for one, other in ((whole.adds, stepwise.adds), (whole.tombstones, stepwise.tombstones)):
        assert set(file_ids(one, ROOT).to_pylist()) == set(file_ids(other, ROOT).to_pylist())
    assert set(whole.keys.to_pylist()) == set(stepwise.keys.to_pylist())


def test_only_chunks_that_lose_many_files_are_copied() -> None:
    first, second = (
        reconcile([batch([add(n) for n in names])], ROOT).adds for names in ("ab", "cd")
    )
    files = pa.concat_tables([first, second])
    kept = anti_join(files, reconcile([batch([remove("c")], start=1)], ROOT), ROOT)
    assert kept.column("path").to_pylist() == ["a", "b", "d"]
    shared, copied = kept.column("path").chunks
    assert shared.buffers()[2].address == first.column("path").chunk(0).buffers()[2].address
    assert len(copied) == 1


@pytest.mark.parametrize("lost", [[0], [1023], [511, 512], [7, 300, 1000]])
def test_chunks_that_lose_few_files_are_shared(lost: list[int]) -> None:
    names = [f"f{i}" for i in range(1024)]
    files = reconcile([batch([add(name) for name in names])], ROOT).adds
    kept = anti_join(
        files, reconcile([batch([remove(names[i]) for i in lost], start=1)], ROOT), ROOT
    )
    assert kept.column("path").to_pylist() == [n for i, n in enumerate(names) if i not in lost]
    (whole,) = files.column("path").chunks
    for piece in kept.column("path").chunks:
        assert piece.buffers()[2].address == whole.buffers()[2].address
