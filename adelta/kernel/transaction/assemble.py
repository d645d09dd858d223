"""The actions of one attempt at a version (PROTOCOL.md, "Commit Provenance Information").

`commitInfo` always comes first, as in-commit timestamps require. It says which version was read and
when, so an attempt at another version has another one.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import orjson

from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.transaction.removal import remove_actions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.kernel.actions.json import Action
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.isolation import IsolationLevel

__all__ = ["assemble", "make_commit_info"]


def make_commit_info(
    staged: StagedChanges,
    *,
    read_version: int | None,
    level: IsolationLevel,
    is_blind_append: bool,
    timestamp_ms: int,
    engine: str,
) -> CommitInfo:
    """The provenance of one attempt.

    `read_version` is the version that the attempt builds on, None for a new table. Parameters are
    written as Spark writes them: text as it is, anything else as JSON in a string.
    """
    return CommitInfo(
        timestamp=timestamp_ms,
        operation=staged.operation,
        operation_parameters=MappingProxyType(_texts(staged.parameters)),
        operation_metrics=MappingProxyType({k: str(v) for k, v in staged.metrics.items()}),
        read_version=read_version,
        isolation_level=level.value,
        is_blind_append=is_blind_append,
        engine_info=engine,
        txn_id=staged.transaction_id,
        user_metadata=staged.user_metadata,
        tags=staged.tags,
        others=staged.commit_info,
    )


def _texts(parameters: Mapping[str, object]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else orjson.dumps(value).decode()
        for key, value in parameters.items()
        if value is not None
    }


def assemble(staged: StagedChanges, info: CommitInfo) -> Iterator[Action]:
    """Every action of the commit, in the order in which they are written."""
    yield info
    if staged.protocol is not None:
        yield staged.protocol
    if staged.metadata is not None:
        yield staged.metadata
    yield from staged.set_transactions
    yield from staged.domains
    yield from remove_actions(staged.removes)
    yield from staged.adds
    yield from staged.cdc
