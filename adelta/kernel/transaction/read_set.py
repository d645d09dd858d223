"""ReadSet: what a transaction has looked at, and so what others must not have changed meanwhile."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.kernel.file_id import FileIds
from adelta.kernel.partition import parse_partition_values

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["FilePredicate", "ReadSet", "changing", "rearranging"]


class FilePredicate(Protocol):
    """A condition under which a transaction has read."""

    @property
    def text(self) -> str:
        """The condition as SQL, for messages."""
        ...

    def may_match(self, adds: pa.Table) -> pa.Array[Any] | pa.ChunkedArray[Any]:
        """For each file of `ADD_SCHEMA`, false where the condition holds for none of its rows."""
        ...


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What was read: the whole table, or the files under some predicates.

    `files` are the data files whose rows were read; `domains` names the domain metadata that were
    read, or looked for in vain, and `all_domains` is whether all were. Application transactions
    that are staged count as read. Whoever has read the `whole_log` conflicts with any other commit.
    """

    whole_table: bool = False
    predicates: tuple[FilePredicate, ...] = ()
    files: FileIds = field(default_factory=FileIds)
    domains: frozenset[str] = frozenset()
    all_domains: bool = False
    whole_log: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no file was read."""
        return not (self.whole_table or self.predicates or len(self.files))

    def with_whole_table(self) -> ReadSet:
        """The same, having read every file too."""
        return replace(self, whole_table=True)

    def with_whole_log(self) -> ReadSet:
        """The same, with no commit of others in between."""
        return replace(self, whole_log=True)

    def with_predicate(self, predicate: FilePredicate) -> ReadSet:
        """The same, having read the files that may match `predicate` too."""
        return replace(self, predicates=(*self.predicates, predicate))

    def with_files(self, files: FileIds) -> ReadSet:
        """The same, having read these files too."""
        return replace(self, files=self.files | files)

    @property
    def has_domains(self) -> bool:
        """Whether domain metadata were read."""
        return self.all_domains or bool(self.domains)

    def with_all_domains(self) -> ReadSet:
        """The same, having read the metadata of every domain too."""
        return replace(self, all_domains=True)

    def with_domain(self, domain: str) -> ReadSet:
        """The same, having read this domain's metadata too."""
        return replace(self, domains=self.domains | {domain})

    def after(self, winner: Commit, root: str, table: TableConfiguration) -> ReadSet:
        """The same, as it stands when `winner` has come first and is no conflict.

        Rows that were read stay read: where the winner has rearranged the files that held them,
        they are in its new files, and whoever removes these removes them. New files of partitions
        that nothing of these was in are left out, where every action names its partition. `table`
        is what the winner has made of it.

        Example: having read a of a and b, after a compaction of both into c, c has been read.
        """
        if not len(self.files):
            return self
        moved = self.files.sharing_data(rearranging(winner.removes), root)
        if not moved.num_rows:
            return self
        into = rearranging(winner.adds)
        left, entered = set(_partitions_of(moved, table)), _partitions_of(into, table)
        everywhere = set(_partitions_of(winner.removes, table))
        if None not in left | everywhere and everywhere.issuperset(entered):
            into = into.filter(array_of([each in left for each in entered], pa.bool_()))
        return self.with_files(FileIds.of_table(into, root))

    def makes_blind(self, staged: StagedChanges) -> bool:
        """Whether a commit of `staged` after reading this is a blind append.

        As Delta has it, it read nothing, and does nothing to files but add them: a commit that only
        changes metadata is one, too.
        """
        return self.is_empty and not staged.removes.num_rows and not staged.cdc


def changing(files: pa.Table) -> pa.Table:
    """File actions whose rows were not in the table before, or are not in it afterwards.

    An action that does not say whether it changes data does.
    """
    return files.filter(_changes(files)) if files.num_rows else files


def rearranging(files: pa.Table) -> pa.Table:
    """File actions (`dataChange` false) whose rows are in the table before and afterwards."""
    return files.filter(pc.invert(_changes(files))) if files.num_rows else files


def _changes(files: pa.Table) -> Any:
    return pc.fill_null(files.column("data_change"), True)


def _partitions_of(files: pa.Table, table: TableConfiguration) -> list[tuple[object, ...] | None]:
    """The partition of each file, by the values that its texts stand for.

    Writers may spell one value in several ways. None where a file does not name its partition.
    """
    columns = table.physical_partition_columns
    values: list[Any] = files.column("partition_values").to_pylist()
    named = [dict(each or ()) for each in values]
    typed = []
    for name, column in zip(columns, table.partition_fields, strict=True):
        texts = array_of([each.get(name) or None for each in named], pa.string())
        try:
            typed.append(parse_partition_values(texts, column.type).to_pylist())
        except InvalidTableError:
            return [None] * len(values)
    rows = zip(*typed, strict=True) if typed else [()] * len(values)
    return [
        tuple("NaN" if value != value else value for value in row)  # else no two are the same
        if all(name in each for name in columns)
        else None
        for each, row in zip(named, rows, strict=True)
    ]
