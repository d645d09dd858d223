"""Several tables of one commit owner: versions claimed together, and asked for at one moment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent
from adelta._dataclasses import dataclass
from adelta.commit.coordinator import CommitOutcome, Committed
from adelta.commit.owner_commit import OwnerCoordinator
from adelta.commit.ratification import Claim, Withheld, ratify_as_short_as_may_be
from adelta.errors import InvalidOptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.commit.coordinator import CommitCoordinator
    from adelta.commit.owned_store import OwnedStore
    from adelta.commit.owner import CommitOwner, CommitResponse, ProposedCommit

__all__ = ["Attempt", "ask_together", "claim_together", "common_owner"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """`data` as the commit of `version`, which `coordinator` is to claim.

    `transaction_id` is the `txnId` that stands in `data`, and `uri` the table's address.
    """

    uri: str
    coordinator: CommitCoordinator
    version: int
    data: bytes
    transaction_id: str


def common_owner(tables: Sequence[tuple[str, OwnedStore | None]]) -> CommitOwner:
    """The owner that all tables have, given by their addresses and as their owners have them.

    Raises:
        InvalidOptionError: one has no owner, or an owner that cannot do anything to several tables
            at once; or two have different ones.
    """
    found: CommitOwner | None = None
    for uri, owned in tables:
        if owned is None:
            raise InvalidOptionError(
                f"{uri} has no commit owner that can be asked, and only an owner makes the "
                "versions of several tables at once; have all of them adopted by one owner first "
                "(adopt_table), or change this one by itself"
            )
        owner = owned.client.owner
        if owner is None:
            raise InvalidOptionError(
                f"{uri}: its commit owner cannot make versions of several tables at once; have all "
                "of them adopted by an owner that can, such as adelta's own (adelta serve)"
            )
        if found is not None and owner != found:
            raise InvalidOptionError(
                f"{uri} has another commit owner than {tables[0][0]}, and only one owner makes the "
                "versions of several tables at once; have all of them adopted by one"
            )
        found = owner
    if found is None:
        raise InvalidOptionError("no table was passed; pass those that are to be taken together")
    return found


async def claim_together(attempts: Sequence[Attempt]) -> Sequence[CommitOutcome | Withheld]:
    """What became of attempts at versions of tables of one owner: all are `Committed`, or none.

    Raises:
        InvalidOptionError: they cannot be made together.
        AdeltaError: store or owner refused; certainly nothing was committed.
    """
    coordinators: list[OwnerCoordinator] = []
    for attempt in attempts:
        if not isinstance(attempt.coordinator, OwnerCoordinator) or not attempt.version:
            raise InvalidOptionError(
                f"{attempt.uri}: a transaction over several tables can neither make a table nor "
                "change who owns it; do that by itself, before or after"
            )
        coordinators.append(attempt.coordinator)
    owners = [coordinator.client.owner for coordinator in coordinators]
    owner = owners[0]
    if owner is None or any(other != owner for other in owners):
        raise InvalidOptionError(
            f"{attempts[0].uri}: the tables of a transaction have different commit owners by now; "
            "have all of them adopted by one, and do the work again"
        )
    together = owner

    async def propose(proposed: Sequence[ProposedCommit]) -> Sequence[CommitResponse]:
        clients = [coordinator.client for coordinator in coordinators]
        return await together.commit_together(list(zip(clients, proposed, strict=True)))

    async def claims_of(inline: bool) -> Sequence[Claim]:
        async def staged(at: int) -> Claim:
            coordinator, one = coordinators[at], attempts[at]
            stage = partial(coordinator.stage, inline=inline, together=len(attempts))
            return Claim(coordinator, await stage(one.version, one.data, one.transaction_id))

        return await map_concurrent(staged, range(len(attempts)), limit=len(attempts))

    claims, outcomes = await ratify_as_short_as_may_be(claims_of, propose)
    for claim, outcome in zip(claims, outcomes, strict=True):
        if isinstance(outcome, Committed):
            await claim.coordinator.note_ratified(claim.proposed)
    return outcomes


async def ask_together(tables: Sequence[tuple[str, OwnedStore | None]]) -> list[int]:
    """The latest version of each table at one and the same moment, learnt by their stores.

    Raises:
        InvalidOptionError: they have no owner in common.
        TableNotFoundError: the owner does not own one of them any more.
        StorageError: the owner refused or failed.
    """
    owner = common_owner(tables)
    logs = [owned.log for _, owned in tables if owned is not None]
    starts = [log.next_unknown for log in logs]
    asked = [(log.client, start) for log, start in zip(logs, starts, strict=True)]
    answers = await owner.get_commits_together(asked)
    if len(answers) != len(logs):
        raise StorageError(f"{tables[0][0]}: its commit owner does not answer as one does")
    for log, answer, start in zip(logs, answers, starts, strict=True):
        log.learn(answer, start)
    return [log.told_latest(answer) for log, answer in zip(logs, answers, strict=True)]
