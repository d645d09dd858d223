"""ReadSet: what a transaction has looked at, and so what others must not have changed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute

from adelta.kernel.file_id import FileIds

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges

__all__ = ["FilePredicate", "ReadSet", "changing", "rearranging"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars


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
    read. Application transactions that are staged count as read. Whoever has read the `whole_log`
    conflicts with any other commit.
    """

    whole_table: bool = False
    predicates: tuple[FilePredicate, ...] = ()
    files: FileIds = field(default_factory=FileIds)
    domains: frozenset[str] = frozenset()
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

    def with_domain(self, domain: str) -> ReadSet:
        """The same, having read this domain's metadata too."""
        return replace(self, domains=self.domains | {domain})

    def after(self, winner: Commit, root: str) -> ReadSet:
        """The same, as it stands when `winner` has come first and is no conflict.

        Rows that were read stay read: where the winner has rearranged the files that held them,
        they are in its new files, and whoever removes these removes them. New files of partitions
        that nothing of these was in are left out, where the winner spells partitions in one way.

        Example: having read a of a and b, after a compaction of both into c, c has been read.
        """
        if not len(self.files):
            return self
        moved = self.files.sharing_data(rearranging(winner.removes), root)
        if not moved.num_rows:
            return self
        into = rearranging(winner.adds)
        left, entered = _partitions(moved), _partitions(into)
        everywhere = _partitions(winner.removes)
        if entered <= everywhere and frozenset() not in everywhere:
            into = into.filter(pa.array([p in left for p in _partitions_of(into)], pa.bool_()))
        return self.with_files(FileIds.of_table(into, root))

    def makes_blind(self, staged: StagedChanges) -> bool:
        """Whether a commit of `staged` after reading this is a blind append."""
        return (
            self.is_empty
            and bool(staged.adds)
            and not staged.removes.num_rows
            and not staged.cdc
            and not staged.metadata
        )


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


def _partitions(files: pa.Table) -> frozenset[frozenset[tuple[str, str | None]]]:
    return frozenset(_partitions_of(files))


def _partitions_of(files: pa.Table) -> list[frozenset[tuple[str, str | None]]]:
    """The partition values of each file; an empty text is null, as some writers have it."""
    values: list[Any] = files.column("partition_values").to_pylist()
    return [frozenset((name, text or None) for name, text in each or ()) for each in values]
