"""DROP FEATURE: a table that supports one table feature less.

First a commit removes whatever uses the feature from the latest version; then another one takes it
out of the protocol. A feature that binds readers is in earlier versions as well, which clients that
lack it must not come upon. There are two ways out. Either checkpoints are written between the two
commits, and protected from then on (feature ``checkpointProtection``), so that no client has to
read further back. Or the history goes: that takes two calls with a day between them, and leaves a
table that every client reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.commit.choose import check_maintenance, publish
from adelta.errors import HistoryRetainedError, InvalidOptionError, InvalidUseError
from adelta.kernel.table_features import (
    CHECKPOINT_PROTECTION,
    CHECKPOINT_PROTECTION_BEFORE,
    Removal,
    dependants,
    is_supported,
    named_feature,
    protocol_with,
    protocol_without,
    unset,
    with_properties,
)
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.cleanup import clean_log
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.feature_history import oldest_commit, used_in_history
from adelta.operations.feature_traces import remove_traces, with_values
from adelta.table import Table, begin, clock_of, latest_state, opened
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.table_features import TableFeature
    from adelta.log.state import LogState
    from adelta.table import TableOrAddress

__all__ = ["drop_feature"]

_BARRIER = 3  # checkpoints: a reader that cannot use one of them may try two earlier ones


@checked
async def drop_feature(
    table: TableOrAddress,
    name: str,
    *,
    truncate_history: bool = False,
    if_exists: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Let a table no longer support a table feature, so that clients without it can use the table.

    What uses the feature goes first, in a commit of its own, and data files are written anew where
    their rows depend on it. Constraints, and columns of types that need the feature, have to be
    dropped by the user. Where the feature binds readers, earlier versions that use it stay readable
    for clients that know it, and the table comes to support ``checkpointProtection`` instead.

    With `truncate_history` those versions go. It takes two calls: the first one removes what uses
    the feature and raises `HistoryRetainedError`; the second one, after the time that
    `delta.dropFeatureTruncateHistory.retentionDuration` says (a day), deletes the history up to
    then, and drops the feature. ``checkpointProtection`` itself is dropped in this way only.

    A feature that the table does not support is an error, unless `if_exists`.

    Raises:
        TableNotFoundError: there is no table.
        InvalidOptionError: the table does not support the feature, or it leaves nothing in the
            history to be truncated.
        InvalidUseError: the feature cannot be dropped from any table, another feature depends on
            it, or something has to be dropped first.
        HistoryRetainedError: versions that use the feature are still kept; call it again later.
        UnsupportedFeatureError: adelta does not know the feature, or cannot write the table.
        CommitConflictError: another commit came first; call it again.
        StorageError: the store refused or failed.
    """
    feature = named_feature(name)
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        if not is_supported(feature, state.protocol):
            if if_exists:
                return AlterMetrics(None)
            raise InvalidOptionError(
                f"{handle.uri} does not support the feature {feature.name}, so it cannot be "
                "dropped; leave it be, or say if_exists=True"
            )
        removal = _removal(feature, state, handle.uri)
        _check_truncation(feature, removal, truncate_history)
        dropping = _Dropping(handle, feature, removal, truncate_history, user_metadata)
        return await dropping.run()


def _removal(feature: TableFeature, state: LogState, uri: str) -> Removal:
    """How the feature goes, where it can.

    Raises:
        InvalidUseError: it cannot be dropped, or not yet.
    """
    removal = feature.removal
    if removal is None:
        raise InvalidUseError(
            f"the feature {feature.name} cannot be dropped from a table; write its rows into a new "
            "one"
        )
    needing = [f.name for f in dependants(state.protocol, feature)]
    if needing:
        raise InvalidUseError(
            f"{uri} supports {', '.join(needing)}, which cannot be without {feature.name}; drop "
            f"{'these' if len(needing) > 1 else 'it'} first"
        )
    obstacle = removal.obstacle(state.metadata)
    if obstacle is not None:
        raise InvalidUseError(f"{feature.name} is needed by {obstacle}")
    return removal


def _check_truncation(feature: TableFeature, removal: Removal, truncate_history: bool) -> None:
    if removal.needs_truncation and not truncate_history:
        raise InvalidUseError(
            f"{feature.name} protects old checkpoints, and can be dropped only together with the "
            "history that they are for; say truncate_history=True"
        )
    if truncate_history and not (removal.protects_history or removal.needs_truncation):
        raise InvalidOptionError(
            f"{feature.name} leaves nothing in the history of a table that would have to be "
            "truncated; leave truncate_history out"
        )


@dataclass(frozen=True, slots=True)
class _Dropping:
    """One call, checked."""

    table: Table
    feature: TableFeature
    removal: Removal
    truncate_history: bool
    user_metadata: str | None

    async def run(self) -> AlterMetrics:
        """Do all of it."""
        removed = await remove_traces(
            self.table,
            self.feature,
            self.removal,
            parameters={"feature": self.feature.name, **self.removal.parameters},
            user_metadata=self.user_metadata,
        )
        if self.truncate_history:
            await self._truncate(removed.version is not None)
            return await self._downgrade()
        guarded = self.removal.protects_history
        for _ in range(_BARRIER if guarded else 0):
            await self._barrier()
        metrics = await self._downgrade()
        if guarded:
            await self._checkpoint()
        return metrics

    async def _barrier(self) -> None:
        async with begin(
            self.table, TransactionRequest(operation="Empty Commit", commits_empty=True)
        ):
            pass
        await self._checkpoint()

    async def _checkpoint(self) -> None:
        state = await latest_state(self.table)
        await publish(self.table.store, state.configuration)
        await write_checkpoint(state)

    async def _truncate(self, cleaned: bool) -> None:
        """Delete the history that has expired, and see that nothing of the feature is left.

        Raises:
            HistoryRetainedError: it is.
            InvalidUseError: the table's catalog does not permit to delete history.
        """
        before = await latest_state(self.table)
        configuration = before.configuration
        check_maintenance(self.table.store, configuration)
        protected = configuration.protected_before
        if self.removal.needs_truncation and not await self._reaches_back(protected):
            return
        await self._barrier()  # a clean-up goes no further than to a checkpoint
        if cleaned:
            raise self._retained(before.version)
        state = await latest_state(self.table)
        properties = state.configuration.properties
        await clean_log(
            state,
            clock_of(self.table).now_ms(),
            retention_ms=properties.drop_feature_retention_ms,
            whole_days=False,
        )
        used = (
            await self._reaches_back(protected)
            if self.removal.needs_truncation
            else await used_in_history(self.table.store, self.removal, state.protocol)
        )
        if used:
            raise self._retained(before.version)

    async def _reaches_back(self, version: int) -> bool:
        """Whether the log has commits before a version."""
        oldest = await oldest_commit(self.table.store)
        return oldest is not None and oldest < version

    def _retained(self, version: int) -> HistoryRetainedError:
        return HistoryRetainedError(
            f"{self.table.uri} does not use {self.feature.name} any more, but versions up to "
            f"{version} may, and they are still kept; call drop_feature with truncate_history=True "
            "again when they are older than delta.dropFeatureTruncateHistory.retentionDuration "
            "(a day, unless it is set)"
        )

    async def _downgrade(self) -> AlterMetrics:
        """Commit the protocol without the feature, where nothing of the latest version uses it."""
        removal, feature = self.removal, self.feature
        async with altering(
            self.table,
            "DROP FEATURE",
            {"featureName": feature.name, "truncateHistory": self.truncate_history},
            user_metadata=self.user_metadata,
            storage_options=None,
        ) as (tx, _):
            files = await tx.read_set()
            used = await in_thread(with_values, files, removal.column, *removal.cleared)
            if (
                removal.cleaned(tx.metadata) != tx.metadata
                or removal.obstacle(tx.metadata) is not None
                or used.num_files
            ):
                raise InvalidUseError(
                    f"{self.table.uri}: somebody has begun to use {feature.name} again while it "
                    "was being dropped; see that nobody does, and call drop_feature again"
                )
            protocol = protocol_without(tx.protocol, feature)
            metadata = unset(tx.metadata, *removal.forgotten)
            if removal.protects_history and not self.truncate_history:
                protocol = protocol_with(protocol, CHECKPOINT_PROTECTION)
                version = {CHECKPOINT_PROTECTION_BEFORE.key: str(tx.base.version + 1)}
                metadata = with_properties(metadata, version)  # later, where a race is lost
            await in_thread(tx.update_metadata, metadata, protocol)
            for domain in removal.domains or ():
                if await tx.read_domain(domain) is not None:
                    tx.staging.set_domain(domain, None)
        return AlterMetrics(tx.version)
