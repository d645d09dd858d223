"""What must hold of staged changes before they go into a log (PROTOCOL.md, "Actions").

Within one commit actions have no order, so nothing may be said twice.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from adelta.errors import InvalidOptionError
from adelta.kernel.statistics import num_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.staged import StagedChanges

__all__ = ["check_staged"]


def check_staged(
    staged: StagedChanges, partition_columns: Sequence[str], *, counted: bool = False
) -> None:
    """Refuse changes that would damage the log; `partition_columns` are physical names.

    `counted` is whether every file that is added has to say how many rows it holds.

    Raises:
        InvalidOptionError: a file is added or removed twice, a domain is set twice, or a file has
            values of other partition columns than the table's, or does not say its rows.
    """
    added = _twice(file.path for file in staged.adds)
    if added is not None:
        raise InvalidOptionError(f"the file {added!r} is added twice in one commit; add it once")
    paths = staged.removes.column("path")
    if pc.count_distinct(paths).as_py() != len(paths):
        raise InvalidOptionError("a file is removed twice in one commit; remove it once")
    domain = _twice(each.domain for each in staged.domains)
    if domain is not None:
        raise InvalidOptionError(f"the domain {domain!r} is set twice in one commit; set it once")
    wanted = set(partition_columns)
    for file in staged.adds:
        if set(file.partition_values) != wanted:
            raise InvalidOptionError(
                f"the file {file.path!r} has values for the partition columns "
                f"({', '.join(file.partition_values)}), but the table's are "
                f"({', '.join(partition_columns)}); give a value, or None, for each of these"
            )
        if counted and num_records(file.stats) is None:
            raise InvalidOptionError(
                f"the file {file.path!r} has no numRecords in its statistics, which the table's "
                "compatibility with Iceberg demands; add it with statistics"
            )


def _twice(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
