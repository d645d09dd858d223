"""Row ids of what a commit adds (PROTOCOL.md, "Writer Requirements for Row Tracking").

Every file that is added gets the ids behind the table's high-water mark, as many as it holds rows,
and the version that the commit becomes. Both depend on the version that a commit is put after, so
they are settled for every attempt anew, and staged files bear none. A file that is added again
keeps what it had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from adelta.errors import InvalidOptionError
from adelta.kernel.file_id import places_of_data
from adelta.kernel.statistics import num_records
from adelta.kernel.table_features import (
    ROW_IDS_PRESERVED,
    ROW_TRACKING,
    ROW_TRACKING_DOMAIN,
    high_water_mark,
    high_water_mark_domain,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["adopt_row_ids", "track_rows"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars

_ROW_ID_FIELDS = ("base_row_id", "default_row_commit_version")


def track_rows(
    staged: StagedChanges,
    configuration: TableConfiguration,
    domains: Mapping[str, DomainMetadata],
    version: int,
    *,
    preserves: bool = True,
) -> StagedChanges:
    """`staged` with ids for the rows of its new files, as the commit of `version`.

    `domains` are those of the version before, and `preserves` says whether rows that were moved
    kept their ids. Where the table supports no row tracking, nothing changes; where it is
    suspended, files bear no ids at all.

    Example: after the mark 9, a file of three rows gets the base 10, and the mark becomes 12.

    Raises:
        InvalidOptionError: a file does not say how many rows it has, or the high-water mark is
            staged by hand.
        InvalidTableError: the table's high-water mark is damaged.
    """
    tags = {key: text for key, text in staged.tags.items() if key != ROW_IDS_PRESERVED}
    if not configuration.supports(ROW_TRACKING):
        return replace(staged, tags=tags) if tags != staged.tags else staged
    if any(domain.domain == ROW_TRACKING_DOMAIN for domain in staged.domains):
        raise InvalidOptionError(
            f"the domain {ROW_TRACKING_DOMAIN} is kept by the commit itself; do not set it"
        )
    if not configuration.uses(ROW_TRACKING):
        bare = (replace(a, base_row_id=None, default_row_commit_version=None) for a in staged.adds)
        return replace(staged, adds=tuple(bare), tags=tags)
    before = mark = high_water_mark(domains)
    adds: list[AddFile] = []
    for add in staged.adds:
        if add.base_row_id is None:
            add = replace(add, base_row_id=mark + 1)
            mark += _physical_rows(add)
        if add.default_row_commit_version is None:
            add = replace(add, default_row_commit_version=version)
        adds.append(add)
    if configuration.row_id_columns is not None:
        said = "true" if preserves else "false"
        tags[ROW_IDS_PRESERVED] = staged.tags.get(ROW_IDS_PRESERVED, said)
    moved = (high_water_mark_domain(mark),) if mark != before else ()
    return replace(staged, adds=tuple(adds), domains=(*staged.domains, *moved), tags=tags)


def _physical_rows(add: AddFile) -> int:
    rows = num_records(add.stats)
    if rows is None:
        raise InvalidOptionError(
            f"the file {add.path!r} has no numRecords in its statistics, so its rows cannot be "
            "given ids, which this table demands; add it with statistics"
        )
    return rows


def adopt_row_ids(staged: StagedChanges, winners: Iterable[Commit], root: str) -> StagedChanges:
    """`staged`, whose removes bear the ids that `winners` have given to the files removed.

    Files that are without ids get them when tracking is switched on; whoever removes such a file
    at the same time goes behind that, and says what the last `add` of the file says.
    """
    removes = staged.removes
    if not removes.num_rows or not removes.column(_ROW_ID_FIELDS[0]).null_count:
        return staged
    for winner in winners:
        given = winner.adds.filter(winner.adds.column(_ROW_ID_FIELDS[0]).is_valid())
        if given.num_rows:
            removes = _with_ids(removes, given, root)
    return staged if removes is staged.removes else replace(staged, removes=removes)


def _with_ids(removes: pa.Table, adds: pa.Table, root: str) -> pa.Table:
    places = places_of_data(removes, adds, root)
    if places.null_count == len(places):
        return removes
    return _replaced(removes, adds, places, _ROW_ID_FIELDS)


def _replaced(
    removes: pa.Table, adds: pa.Table, places: pa.ChunkedArray[Any], names: Sequence[str]
) -> pa.Table:
    for name in names:
        taken = adds.column(name).take(places)
        column = pc.coalesce(taken, removes.column(name))
        removes = removes.set_column(removes.schema.get_field_index(name), name, column)
    return removes
