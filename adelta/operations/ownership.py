"""Who decides on a table's commits: an owner takes the table, or gives it back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.commit.choose import filesystem_of, named_owner_of
from adelta.commit.owner_commit import proposed_commit
from adelta.errors import InvalidOptionError, InvalidTableError, InvalidUseError, TableNotFoundError
from adelta.kernel.log_path import commit_path
from adelta.kernel.table_features import (
    KINDS,
    MANAGED,
    unset,
    validate_properties,
    with_properties,
    without_owner,
)
from adelta.log.commit_provenance import read_commit_info
from adelta.log.load import load_state
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.evolve import stage_metadata
from adelta.table import opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import TableOrAddress

__all__ = ["adopt_table", "recover_table", "release_table"]


@checked
async def adopt_table(
    table: TableOrAddress,
    owner: str,
    conf: Mapping[str, str] | None = None,
    *,
    feature: str = MANAGED.feature,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Have the commit owner `owner` decide on a table's commits from now on.

    So a table of the filesystem comes to have an owner, and one that has an owner gets another.
    `conf` is how the owner is reached, as everybody who reads the table is shown: no secrets.
    `feature` is the table feature by which the table says so, ``managedCommit`` or Delta Spark's
    ``coordinatedCommits-preview``. In-commit timestamps are switched on.

    The new owner promises first to own the table; the commit that says so is made by whoever has
    decided so far, and has taken effect as soon as the log shows it. Writers who are at work
    meanwhile go on with the new owner, or meet a conflict.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: its owner says that it does not own it.
        InvalidOptionError: no such owner is known here, or there is no such feature.
        InvalidPropertyError: `conf` holds what looks like a secret.
        InvalidUseError: the table has an owner by another feature, and has to be released first.
        CommitConflictError: another commit came first and the work has to be done again.
        AdeltaError: an owner refused, or the store.
    """
    kind = next((k for k in KINDS if k.feature == feature and k.owner_key is not None), None)
    if kind is None or kind.owner_key is None or kind.conf_key is None:
        named = ", ".join(k.feature for k in KINDS if k.owner_key is not None)
        raise InvalidOptionError(
            f"no table says by the feature {feature!r:.80} who its owner is; take one of {named}"
        )
    asked = {kind.owner_key: owner}
    if conf:
        asked[kind.conf_key] = orjson.dumps(dict(conf)).decode()
    validate_properties(asked)
    async with altering(
        table,
        "SET TBLPROPERTIES",
        {"properties": asked},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, handle):
        managed = tx.configuration.management
        if managed is not None and managed.kind is not kind:
            raise InvalidUseError(
                f"{handle.uri} has an owner by the feature {managed.kind.feature}; take the table "
                f"from it by release_table before it is managed by {kind.feature}"
            )
        same = managed is not None and (managed.owner, managed.conf) == (owner, dict(conf or {}))
        if not same:
            rest = unset(tx.metadata, *(p.key for p in kind.properties))
            await in_thread(stage_metadata, tx, with_properties(rest, asked))
    return AlterMetrics(tx.version)


@checked
async def release_table(
    table: TableOrAddress,
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Take a table from its commit owner, so that the filesystem decides on its commits again.

    All commits are published, and the one that says so is the last that the owner ratifies. Writers
    who are at work meanwhile meet a conflict. In-commit timestamps stay switched on.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: its owner says that it does not own it.
        InvalidUseError: the table has no owner, or a catalog manages it, which gives none up.
        InvalidOptionError: nothing here speaks to the table's owner.
        CommitConflictError: another commit came first and the work has to be done again.
        AdeltaError: the owner does not give the table up, or it failed, or the store.
    """
    async with altering(
        table,
        "DROP FEATURE",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, handle):
        managed = tx.configuration.management
        if managed is None or managed.owner is None:
            by = "is managed by a catalog, which gives none up" if managed else "has no owner"
            raise InvalidUseError(f"{handle.uri} {by}: there is nothing to release it from")
        tx.describe(featureName=managed.kind.feature, truncateHistory=False)
        protocol, metadata = without_owner(tx.protocol, tx.metadata)
        await in_thread(tx.update_metadata, metadata, protocol)
    return AlterMetrics(tx.version)


@checked
async def recover_table(
    table: TableOrAddress, *, storage_options: Mapping[str, str] | None = None
) -> int:
    """Have the commit owner that a table names take it up again, after its database was lost.

    It goes on with what has been published, and so does one whose database was restored from a
    backup of an earlier time. What it had ratified and not published is lost with the database. An
    owner that knows of all that has been published is left as it is. The latest version that the
    owner has then is returned.

    Raises:
        TableNotFoundError: there is no table.
        InvalidUseError: it names no owner.
        InvalidOptionError: nothing here speaks to the owner.
        InvalidTableError: the log is damaged, or its last commit does not say whose it is.
        AdeltaError: the owner refused, or the store.
    """
    async with opened(table, storage_options) as handle:
        plain = filesystem_of(handle.store)
        state = await load_state(plain)
        client, version = named_owner_of(handle.store, state.configuration), state.version
        with suppress(TableNotFoundError):
            told = await client.get_commits(version + 1)
            if told.latest_version >= version:
                return told.latest_version
        transaction_id = (await read_commit_info(plain, version)).txn_id
        if transaction_id is None:
            raise InvalidTableError(
                f"{handle.uri}: the commit of version {version} has no txnId, by which its owner "
                "would know it; it was made by somebody who did not ask the owner"
            )
        content = await plain.get(commit_path(version))
        await client.propose(proposed_commit(version, content, transaction_id, handle.uri))
        await client.accept(version)
    return version
