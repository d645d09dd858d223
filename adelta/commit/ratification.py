"""Ratification: commits are proposed to their owner, and it is found out what became of them.

Several are proposed together, each for another table, and are ratified all or not at all; one alone
is the same with one. To propose again is safe: a commit is ratified once at most. Where an answer
was lost, the owner is asked whose the versions are, and one that is ours tells of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.commit.coordinator import CommitOutcome, Committed, Lost, Unknown
from adelta.commit.owner import CommitTooLongError
from adelta.errors import (
    AdeltaError,
    CommitOutcomeUnknownError,
    InvalidTableError,
    TableNotFoundError,
    ThrottledError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adelta.commit.owner import CommitResponse, ProposedCommit
    from adelta.commit.owner_commit import OwnerCoordinator

    Propose = Callable[[Sequence[ProposedCommit]], Awaitable[Sequence[CommitResponse]]]

__all__ = ["Claim", "Withheld", "ratify", "ratify_as_short_as_may_be"]

_PROPOSALS = 3


@dataclass(frozen=True, slots=True)
class Withheld:
    """The version is free, and nothing of ours is there: of what it goes with, some has lost."""

    version: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A commit that is proposed for the table whose versions `coordinator` claims."""

    coordinator: OwnerCoordinator
    proposed: ProposedCommit

    @property
    def version(self) -> int:
        """The version that is claimed."""
        return self.proposed.version

    async def published_anew(self) -> Claim:
        """The same, after all that the owner has ratified has been published.

        Raises:
            StorageError: the owner failed, or a commit could not be published.
        """
        published = await self.coordinator.publish_all()
        return replace(self, proposed=replace(self.proposed, published_version=published))


async def ratify(
    claims: Sequence[Claim], propose: Propose
) -> Sequence[CommitOutcome] | Sequence[CommitOutcome | Withheld]:
    """What became of claims that are proposed together: all are `Committed`, or none is.

    Where one has lost, those whose versions are still free are `Withheld`. Where nobody can say
    what became of them, all are `Unknown`.

    Raises:
        InvalidTableError: the owner refuses, and is behind the version that a commit builds on.
        AdeltaError: the owner refused; certainly nothing was ratified.
    """
    doubt: Exception | None = None
    for attempt in range(_PROPOSALS):
        try:
            responses = await propose([claim.proposed for claim in claims])
        except CommitOutcomeUnknownError as error:
            doubt = error
        except TableNotFoundError as error:  # the log tells who owns it now
            if doubt is None:
                passed_on = await _given_up(claims)
                if passed_on is None:
                    raise
                return passed_on
            doubt = error
        except ThrottledError as error:
            if doubt is None and attempt == 0:
                claims = [await claim.published_anew() for claim in claims]
                continue
            if doubt is None:
                raise
            doubt = error
        except AdeltaError as error:
            if doubt is None:
                raise
            doubt = error  # this proposal failed; an earlier one may not have
        except Exception as error:  # whatever it is, it is no answer
            doubt = error
        else:
            try:
                told = [
                    await claim.coordinator.answered(
                        claim.proposed,
                        response,
                        doubtful=doubt is not None or (len(claims) > 1 and not response.latest),
                    )
                    for claim, response in zip(claims, responses, strict=True)
                ]
            except AdeltaError as error:
                if doubt is None:
                    raise
                return _unknown(claims, error)
            outcomes = _together(claims, told)
            if outcomes is not None:
                return outcomes
            if doubt is None:
                raise _behind(claims[0])
            continue
        try:
            whose = await _found_out(claims)
        except AdeltaError as error:
            return _unknown(claims, error)
        outcomes = _together(claims, whose)
        if outcomes is not None:
            return outcomes
    return _unknown(claims, doubt or CommitOutcomeUnknownError())


async def ratify_as_short_as_may_be(
    make: Callable[[bool], Awaitable[Sequence[Claim]]], propose: Propose
) -> tuple[Sequence[Claim], Sequence[CommitOutcome | Withheld]]:
    """What became of claims, and these: those that `make` makes inline, or else staged.

    Staged are those that are too long for the owner, or for what stands before it.

    Raises: as `ratify` does.
    """
    claims = await make(True)
    try:
        return claims, await ratify(claims, propose)
    except CommitTooLongError:
        if all(claim.proposed.staged_file is not None for claim in claims):
            raise
    claims = await make(False)
    return claims, await ratify(claims, propose)


def _together(
    claims: Sequence[Claim], found: Sequence[CommitOutcome | None]
) -> Sequence[CommitOutcome | Withheld] | None:
    """What became of all, by what was found of each; None where no version is anybody's yet."""
    if any(isinstance(outcome, Committed) for outcome in found):
        return [Committed(each.version, each.proposed.modified_ms) for each in claims]
    if any(isinstance(outcome, Lost) for outcome in found):
        return [
            outcome if isinstance(outcome, Lost) else Withheld(claim.version)
            for claim, outcome in zip(claims, found, strict=True)
        ]
    unknown = next((outcome for outcome in found if isinstance(outcome, Unknown)), None)
    return None if unknown is None else _unknown(claims, unknown.cause)


def _unknown(claims: Sequence[Claim], cause: Exception) -> list[CommitOutcome]:
    return [Unknown(claim.version, cause) for claim in claims]


async def _found_out(claims: Sequence[Claim]) -> Sequence[CommitOutcome | None]:
    """Whose the versions are, by what the owner says, or by the log where it owns them no more."""
    try:
        return [await claim.coordinator.found_out(claim.proposed) for claim in claims]
    except TableNotFoundError:
        return [await _passed_on(claim) for claim in claims]


async def _given_up(claims: Sequence[Claim]) -> Sequence[CommitOutcome | Withheld] | None:
    """Whose the versions are where the owner has ratified none; None where that is not known.

    Its last commit is in the log, or is told of until it has been published.
    """
    passed_on = _together(claims, [await _passed_on(claim) for claim in claims])
    if passed_on is not None:
        return passed_on
    try:
        return _together(claims, await _found_out(claims))
    except AdeltaError:
        return None


async def _passed_on(claim: Claim) -> CommitOutcome | None:
    """Whose the version is, by the log alone; None where it does not show it."""
    found = await claim.coordinator.published_by(claim.proposed)
    if found is None:
        return None
    return Committed(claim.version, claim.proposed.modified_ms) if found else Lost(claim.version)


def _behind(claim: Claim) -> InvalidTableError:
    root, latest = claim.coordinator.root, claim.coordinator.latest
    return InvalidTableError(
        f"{root}: its owner refuses version {claim.version}, and has ratified no more than version "
        f"{latest}; open the table again, and ask who runs the owner where that does not help"
    )
