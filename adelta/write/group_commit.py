"""Several blind appends of one process as one commit.

They have read nothing, so they cannot conflict with each other: what one of them adds, the others
do not know of. Each keeps its own application transactions, and the `commitInfo` names each by its
`txnId`, in the tag ``adelta.groupCommit``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import orjson

from adelta._chance import new_uuid
from adelta.kernel.file_id import FileId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.read_set import ReadSet

__all__ = ["GROUP_TAG", "can_join", "combined", "is_groupable"]

GROUP_TAG = "adelta.groupCommit"

_MEMBERS = 256
_FILES = 10_000


def is_groupable(staged: StagedChanges, read: ReadSet) -> bool:
    """Whether a commit of `staged` may be one with others: a blind append and nothing else."""
    return (
        read.makes_blind(staged)
        and not read.has_domains
        and staged.protocol is None
        and not staged.domains
    )


def can_join(group: Sequence[StagedChanges], staged: StagedChanges, root: str) -> bool:
    """Whether `staged` can be a member: of the same operation, and saying nothing twice.

    `root` is the table's address.
    """
    first = group[0]
    if _said(first) != _said(staged):
        return False
    if len(group) >= _MEMBERS or sum(len(each.adds) for each in group) >= _FILES:
        return False
    applications = {txn.app_id for each in group for txn in each.set_transactions}
    if any(txn.app_id in applications for txn in staged.set_transactions):
        return False
    paths = {FileId.of(file, root).path for each in group for file in each.adds}
    return all(FileId.of(file, root).path not in paths for file in staged.adds)


def _said(staged: StagedChanges) -> tuple[object, ...]:
    """What a commit says of itself that members have to have in common."""
    return (
        staged.operation,
        staged.parameters,
        staged.user_metadata,
        staged.tags,
        staged.commit_info,
    )


def combined(group: Sequence[StagedChanges]) -> StagedChanges:
    """The members as one; a single one as it is."""
    if len(group) == 1:
        return group[0]
    members = orjson.dumps([each.transaction_id for each in group]).decode()
    return replace(
        group[0],
        transaction_id=str(new_uuid()),
        metrics=_sums(each.metrics.items() for each in group),
        tags={**group[0].tags, GROUP_TAG: members},
        set_transactions=tuple(txn for each in group for txn in each.set_transactions),
        adds=tuple(file for each in group for file in each.adds),
        existing=reduce(or_, (each.existing for each in group)),
    )


def _sums(metrics: Iterable[Iterable[tuple[str, object]]]) -> Counter[str]:
    """The numbers, added up; texts say something of one member alone."""
    sums: Counter[str] = Counter()
    for each in metrics:
        for name, value in each:
            if isinstance(value, int):
                sums[name] += value
    return sums
