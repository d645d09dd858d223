"""What a version says beside its rows, by its commits alone, and as it is read from a log.

By commits alone: each is told in turn to `FactsSoFar`. From a log: `facts_of` takes what stands for
commits there, checkpoints and their sidecars, compactions and checksums, and all of these have to
say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adelta.kernel.history import adjusted_timestamps
from adelta.log.checksum_io import verify_checksum
from adelta.log.load import load_state
from tests.support.live_rows import action_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.commit import Commit
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["Facts", "FactsSoFar", "facts_of"]


@dataclass(frozen=True)
class Facts:
    """What a version says; of the transactions of applications there is a sum over all.

    `files` are the actions of its files, by `action_text`.
    """

    files: frozenset[str]
    protocol: Protocol
    metadata: Metadata
    transactions: int
    domains: frozenset[DomainMetadata]

    def differences(self, other: Facts) -> list[str]:
        """The names of what is not the same in both."""
        return [name for name, value in vars(self).items() if value != getattr(other, name)]


@dataclass
class FactsSoFar:
    """What the commits that were told say together, and when they were made.

    `wrong` is what is wrong with the times that they say.
    """

    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _transactions: dict[str, SetTransaction] = field(default_factory=dict)
    _total: int = 0
    _modified: list[int] = field(default_factory=list)
    _stamps: list[int | None] = field(default_factory=list)
    _began: tuple[int, int] | None = None  # the version and time from which there are stamps

    def tell(self, commit: Commit, state: LogState) -> None:
        """Make a commit part of it, which leaves `state`."""
        for txn in commit.set_transactions:
            before = self._transactions.get(txn.app_id)
            self._total += _weight(txn) - (0 if before is None else _weight(before))
            self._transactions[txn.app_id] = txn
        for domain in commit.domain_metadata:
            self.domains[domain.domain] = domain
        self._tell_time(commit, state)

    def _tell_time(self, commit: Commit, state: LogState) -> None:
        version, stamp = commit.version, commit.info.in_commit_timestamp
        stamped, was = state.configuration.in_commit_timestamps_enabled, self._stamps[-1:]
        self._modified.append(commit.modified_ms or 0)
        self._stamps.append(stamp if stamped else None)
        if stamped and was == [None] and stamp is not None:
            self._began = (version, stamp)
        elif not stamped:
            self._began = None
        said = state.configuration.in_commit_timestamp_enablement
        if stamped and said != self._began:
            self.wrong.append(
                f"version {version} says that stamps began with {said}, not {self._began}"
            )

    def facts(self, files: Iterable[str], state: LogState) -> Facts:
        """What the version says that the last commit has made."""
        domains = frozenset(each for each in self.domains.values() if not each.removed)
        return Facts(frozenset(files), state.protocol, state.metadata, self._total, domains)

    def times_ms(self) -> list[int]:
        """When each version was made, by what counts for the last one."""
        since = len(self._stamps)
        if self._stamps[-1] is not None:
            since = 0 if self._began is None else self._began[0]
        stamps = [each or 0 for each in self._stamps[since:]]
        return [*adjusted_timestamps(self._modified[:since]), *stamps]


def _weight(txn: SetTransaction) -> int:
    return hash((txn.app_id, txn.version))


async def facts_of(store: ObjectStore, version: int) -> Facts:
    """What a version says, as it is read from the log that is there, and by itself.

    Raises:
        AdeltaError: it cannot be read, or what is read twice is not the same.
    """
    state = await load_state(store, version=version)
    files = (action_text(file.to_json()) for file in (await state.files()).rows())
    protocol, metadata = await state.logged()
    transactions: Mapping[str, SetTransaction] = await state.set_transactions()
    domains = frozenset((await state.domain_metadata()).values())
    await verify_checksum(state)
    total = sum(map(_weight, transactions.values()))
    return Facts(frozenset(files), protocol, metadata, total, domains)
