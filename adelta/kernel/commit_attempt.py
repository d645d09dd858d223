"""CommitAttempt: staged changes as they are to be written as one version, before they are bytes."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.staged import StagedChanges

__all__ = ["CommitAttempt"]


@dataclass(frozen=True, slots=True)
class CommitAttempt:
    """One attempt at a version: what it is to hold, and what that depends on.

    Attributes:
        version: the version that it is to become.
        staged: the changes.
        info: their provenance.
        protocol: the table's protocol, these changes applied.
        metadata: the table's metadata, these changes applied.
        before: the metadata of the version before; None for the first version.
        written_for: the metadata of the version that the changes were made against.
        domains: the domain metadata of the version before, where a feature keeps some.
        previous_ms: the time of the version before, in milliseconds; None for the first version.
    """

    version: int
    staged: StagedChanges
    info: CommitInfo
    protocol: Protocol
    metadata: Metadata
    before: Metadata | None
    written_for: Metadata
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    previous_ms: int | None = None

    def with_tag(self, key: str, text: str) -> CommitAttempt:
        """The attempt with a tag in its provenance."""
        return replace(self, info=replace(self.info, tags={**self.info.tags, key: text}))
