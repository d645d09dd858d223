from __future__ import annotations

from dataclasses import replace

import pytest

from adelta.errors import InvalidOptionError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.staged import StagedChanges
from adelta.kernel.transaction.precommit import check_staged
from adelta.kernel.transaction.removal import removes_table

VECTOR = DeletionVectorDescriptor("i", "x", 1, 1)
ROOT = "memory://lake/t"


def add(path: str, **values: str | None) -> AddFile:
    return AddFile(path, values, 1, 1)


def test_a_file_is_not_removed_and_added_in_one_commit_but_for_another_vector() -> None:
    """Engines differ in what they make of it: some read no row of the file."""
    for path in ("a", f"{ROOT}/a"):
        gone = removes_table([RemoveFile(path, 1)])
        with pytest.raises(InvalidOptionError, match="'a' is removed and added"):
            check_staged(StagedChanges("i", adds=(add("a"),), removes=gone), [], root=ROOT)
        under_vector = replace(add("a"), deletion_vector=VECTOR)
        check_staged(StagedChanges("i", adds=(under_vector,), removes=gone), [], root=ROOT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (StagedChanges("i", adds=(add("a"), add("b"), add("a"))), "'a' is added twice"),
        (StagedChanges("i", adds=(add("a b"), add("a%20b"))), "'a b' is added twice"),
        (StagedChanges("i", adds=(add("a"), add(f"{ROOT}/a"))), "'a' is added twice"),
        (
            StagedChanges("i", removes=removes_table([RemoveFile("a", 1), RemoveFile("a", 2)])),
            "removed twice",
        ),
        (
            StagedChanges(
                "i",
                removes=removes_table(
                    [RemoveFile("a", 1), RemoveFile("a", 1, deletion_vector=VECTOR)]
                ),
            ),
            "removed twice",
        ),
        (
            StagedChanges("i", domains=(DomainMetadata("d", "1"), DomainMetadata("d", "2"))),
            "'d' is set twice",
        ),
    ],
)
def test_nothing_is_said_twice_in_one_commit(changes: StagedChanges, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        check_staged(changes, [], root=ROOT)


def test_a_file_has_a_value_for_every_partition_column_and_no_other() -> None:
    check_staged(StagedChanges("i", adds=(add("a", p=None, q="1"),)), ["p", "q"], root=ROOT)
    for file in (add("a"), add("a", p="1"), add("a", p="1", q="1", r="1")):
        with pytest.raises(InvalidOptionError, match=r"the table's are \(p, q\)"):
            check_staged(StagedChanges("i", adds=(file,)), ["p", "q"], root=ROOT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": ""},
        {"path": 7},
        {"size": -1},
        {"size": 2**63},
        {"size": 1.5},
        {"size": True},
        {"size": None},
        {"modification_time": "now"},
        {"data_change": "no"},
        {"stats": {"numRecords": 1}},
        {"tags": {"a": 1}},
        {"partition_values": {"p": 1}},
        {"base_row_id": "0"},
        {"base_row_id": -3},
        {"path": "_delta_log/00000000000000000009.json"},
        {"path": "../other/a.parquet"},
        {"path": "a%00b"},
        {"path": "\ud800"},
        {"stats": "\ud800"},
        {"tags": {"a": "\ud800"}},
        {"deletion_vector": "v"},
    ],
)
def test_what_a_log_cannot_hold_is_refused(wrong: dict[str, object]) -> None:
    file = replace(add("a", p=None), **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match=f"an AddFile has the {next(iter(wrong))}"):
        check_staged(StagedChanges("i", adds=(file,)), ["p"], root=ROOT)
