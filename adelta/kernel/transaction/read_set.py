"""ReadSet: what a transaction has looked at, and so what others must not have changed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.staged import StagedChanges

__all__ = ["FilePredicate", "ReadSet"]


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

    `paths` are decoded paths of data files, whose rows were read; `domains` names the domain
    metadata that were read. Application transactions that are staged count as read.
    """

    whole_table: bool = False
    predicates: tuple[FilePredicate, ...] = ()
    paths: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether no file was read."""
        return not (self.whole_table or self.predicates or self.paths)

    def with_whole_table(self) -> ReadSet:
        """The same, having read every file too."""
        return replace(self, whole_table=True)

    def with_predicate(self, predicate: FilePredicate) -> ReadSet:
        """The same, having read the files that may match `predicate` too."""
        return replace(self, predicates=(*self.predicates, predicate))

    def with_files(self, paths: frozenset[str]) -> ReadSet:
        """The same, having read these files too."""
        return replace(self, paths=self.paths | paths)

    def with_domain(self, domain: str) -> ReadSet:
        """The same, having read this domain's metadata too."""
        return replace(self, domains=self.domains | {domain})

    def makes_blind(self, staged: StagedChanges) -> bool:
        """Whether a commit of `staged` after reading this is a blind append."""
        return (
            self.is_empty
            and bool(staged.adds)
            and not staged.removes.num_rows
            and not staged.cdc
            and not staged.metadata
        )
