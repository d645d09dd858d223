"""What becomes of the first commit of a table where another writer has created the table first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import MetadataChangedError
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.metadata_change import metadata_may_change, protocol_may_change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.staged import StagedChanges

__all__ = ["NewTable", "rebase_creation"]


@dataclass(frozen=True, slots=True)
class NewTable:
    """What the first commit of a table says of it."""

    protocol: Protocol
    metadata: Metadata
    domains: tuple[DomainMetadata, ...] = ()

    @property
    def configuration(self) -> TableConfiguration:
        """The table's configuration."""
        return TableConfiguration(self.protocol, self.metadata)


def rebase_creation(
    staged: StagedChanges,
    theirs: TableConfiguration,
    domains: Mapping[str, DomainMetadata],
    root: str,
) -> StagedChanges:
    """`staged`, the first commit of a table, as a commit to the table that is there by now.

    That is possible where files written for the one are as if written for the other: the same
    columns, under the same names in files, partitions, constraints and clustering.

    Raises:
        MetadataChangedError: the two tables differ.
        UnsupportedFeatureError: the table needs what adelta cannot write.
    """
    assert staged.protocol is not None
    assert staged.metadata is not None
    ours = TableConfiguration(staged.protocol, replace(staged.metadata, id=theirs.metadata.id))
    same_domains = all(
        domain.domain in domains and domains[domain.domain].configuration == domain.configuration
        for domain in staged.domains
    )
    protocols = ours.protocol == theirs.protocol or protocol_may_change(
        ours.protocol, theirs.protocol
    )
    if not (same_domains and protocols and metadata_may_change(ours, theirs)):
        raise MetadataChangedError(
            f"{root}: another writer has created the table meanwhile, with other columns or "
            "properties than this write would have; open the table, and write again",
            winning_version=0,
        )
    theirs.check_writable(root)
    return replace(staged, protocol=None, metadata=None, domains=())
