"""What features do in a commit: settle it for its version, and bring it up to date with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.kernel.table_features._registry import FEATURES, supported_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.commit import Commit
    from adelta.kernel.commit_attempt import CommitAttempt
    from adelta.kernel.staged import StagedChanges

__all__ = ["MAINTAINED_DOMAINS", "maintained_domains", "prepared", "rebased"]

MAINTAINED_DOMAINS = frozenset(name for each in FEATURES for name in each.maintained_domains)
"""The domains that commits keep by themselves, as their features say."""


def maintained_domains(protocol: Protocol) -> frozenset[str]:
    """Those of `MAINTAINED_DOMAINS` that the commits of a table keep."""
    supported = supported_features(protocol)
    return frozenset(name for each in supported for name in each.maintained_domains)


def prepared(attempt: CommitAttempt) -> CommitAttempt:
    """`attempt` with what depends on its version and on its moment.

    Raises:
        InvalidOptionError: what is staged lacks what a feature of the table demands, or sets a
            domain that commits keep by themselves.
        InvalidTableError: what the table says of a feature is damaged.
    """
    kept = maintained_domains(attempt.protocol)
    for domain in attempt.staged.domains:
        if domain.domain in kept:
            raise InvalidOptionError(
                f"the domain {domain.domain} is kept by the commit itself; do not set it"
            )
    for feature in supported_features(attempt.protocol):
        attempt = feature.prepare_commit(attempt)
    return attempt


def rebased(staged: StagedChanges, winners: Sequence[Commit], root: str) -> StagedChanges:
    """`staged` on top of commits that came first, and were found harmless.

    `root` is the table's address.
    """
    for feature in FEATURES:
        staged = feature.rebase(staged, winners, root)
    return staged
