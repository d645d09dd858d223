from __future__ import annotations

import pytest

from adelta.errors import InvalidOptionError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, RemoveFile
from adelta.kernel.staged import StagedChanges
from adelta.kernel.transaction.precommit import check_staged
from adelta.kernel.transaction.removal import removes_table


def add(path: str, **values: str | None) -> AddFile:
    return AddFile(path, values, 1, 1)


def test_a_file_may_be_removed_and_added_again_in_one_commit() -> None:
    changes = StagedChanges("i", adds=(add("a"),), removes=removes_table([RemoveFile("a", 1)]))
    check_staged(changes, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (StagedChanges("i", adds=(add("a"), add("b"), add("a"))), "'a' is added twice"),
        (
            StagedChanges("i", removes=removes_table([RemoveFile("a", 1), RemoveFile("a", 2)])),
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
        check_staged(changes, [])


def test_a_file_has_a_value_for_every_partition_column_and_no_other() -> None:
    check_staged(StagedChanges("i", adds=(add("a", p=None, q="1"),)), ["p", "q"])
    for file in (add("a"), add("a", p="1"), add("a", p="1", q="1", r="1")):
        with pytest.raises(InvalidOptionError, match=r"the table's are \(p, q\)"):
            check_staged(StagedChanges("i", adds=(file,)), ["p", "q"])
