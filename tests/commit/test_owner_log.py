"""What is known of an owner's commits, by answers that come late, twice, and in any order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import pytest

from adelta.commit.owner import RatifiedCommit, RatifiedCommits
from adelta.commit.owner_log import OwnerLog

if TYPE_CHECKING:
    from adelta.commit.owner import CommitOwnerClient


class Owner:
    """An owner that publishes behind what it ratifies, and keeps some of that for a while."""

    def __init__(self) -> None:
        self.latest, self.published, self.kept = 0, 0, 1

    def tells(self, start: int | None) -> RatifiedCommits:
        first = self.kept if start is None else max(start, self.kept)
        found = (RatifiedCommit(v, content=b"x") for v in range(first, self.latest + 1))
        return RatifiedCommits(self.latest, tuple(found))


def live(seed: int) -> int:
    """Let an owner and a log live; how many answers were not taken in."""
    chance, owner = random.Random(seed), Owner()
    log = OwnerLog(cast("CommitOwnerClient", None), "memory://t", chance.choice((-1, 0)))
    late: list[tuple[RatifiedCommits, int | None]] = []
    refused = 0
    for _ in range(60):
        match chance.randrange(7):
            case 0 | 1:
                owner.latest += 1
                if chance.random() < 0.3:
                    log.note_ratified(RatifiedCommit(owner.latest, content=b"x"))
            case 2:
                owner.published = chance.randint(owner.published, owner.latest)
                if chance.random() < 0.3:
                    log.note_listed(chance.randint(0, owner.published))
            case 3:
                owner.kept = chance.randint(owner.kept, owner.published + 1)
            case 4:  # a question, or a race that is lost, wherever the loser is
                start = chance.choice((log.next_unknown, None, chance.randint(1, owner.latest + 1)))
                late.append((owner.tells(start), start))
            case _ if late:
                answer = late[chance.randrange(len(late))]
                refused += not log.learn(*answer)
                if chance.random() < 0.7:
                    late.remove(answer)
        assert (log.published or 0) <= owner.published
        for version in range(1, (log.latest or 0) + 1):
            assert version in log.commits or version <= owner.published, version
    return refused


@pytest.mark.parametrize("begin", range(0, 1000, 250))
def test_every_version_that_is_known_of_is_kept_or_published(begin: int) -> None:
    assert sum(live(seed) for seed in range(begin, begin + 250)) > 50
