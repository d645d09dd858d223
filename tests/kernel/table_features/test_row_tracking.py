"""Ids for the rows of a commit: where they begin, who keeps them, and when there are none."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidOptionError, InvalidTableError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, RemoveFile
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.commit_attempt import CommitAttempt
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import prepared, rebased
from adelta.kernel.transaction.removal import removes_table
from tests.support.commits import commit_of

ROOT = "memory://lake/t"
DOMAIN = "delta.rowTracking"
SUPPORTED = Protocol(1, 7, None, ("rowTracking", "domainMetadata"))
PRESERVED = "delta.rowTracking.preserved"


def table(protocol: Protocol = SUPPORTED, **properties: str) -> TableConfiguration:
    configuration = {f"delta.{key}": value for key, value in properties.items()}
    metadata = Metadata("id", '{"type":"struct","fields":[]}', configuration=configuration)
    return TableConfiguration(protocol, metadata)


def add(path: str, rows: int | None = None, **more: int) -> AddFile:
    stats = None if rows is None else f'{{"numRecords":{rows}}}'
    return AddFile(path, {}, 1, 1, stats=stats, **more)  # type: ignore[arg-type]


def staged(*adds: AddFile, **more: object) -> StagedChanges:
    return StagedChanges("mine", adds=adds, **more)  # type: ignore[arg-type]


def mark(number: int) -> dict[str, DomainMetadata]:
    return {DOMAIN: DomainMetadata(DOMAIN, f'{{"rowIdHighWaterMark":{number}}}')}


def attempt(
    staged: StagedChanges,
    table: TableConfiguration,
    domains: dict[str, DomainMetadata],
    version: int,
    *,
    written_for: TableConfiguration | None = None,
) -> CommitAttempt:
    return prepared(
        CommitAttempt(
            version,
            staged,
            CommitInfo(tags=staged.tags),
            protocol=table.protocol,
            metadata=table.metadata,
            before=table.metadata,
            written_for=(written_for or table).metadata,
            domains=domains,
        )
    )


def track_rows(
    staged: StagedChanges, table: TableConfiguration, domains: dict[str, DomainMetadata], at: int
) -> StagedChanges:
    return attempt(staged, table, domains, at).staged


def ids(tracked: StagedChanges) -> list[tuple[int | None, int | None]]:
    return [(file.base_row_id, file.default_row_commit_version) for file in tracked.adds]


def test_ids_begin_behind_the_mark_and_move_it() -> None:
    # B9-01, B9-02
    tracked = track_rows(staged(add("a", 3), add("b", 2)), table(), mark(9), 7)
    assert ids(tracked) == [(10, 7), (13, 7)]
    assert tracked.domains == tuple(mark(14).values())


def test_the_first_id_of_a_table_is_0() -> None:
    tracked = track_rows(staged(add("a", 3)), table(), {}, 0)
    assert ids(tracked) == [(0, 0)]
    removed = {DOMAIN: DomainMetadata(DOMAIN, "", removed=True)}
    assert ids(track_rows(staged(add("a", 3)), table(), removed, 4)) == [(0, 4)]


def test_a_file_that_is_added_again_keeps_what_it_had() -> None:
    # B9-05
    old = add("a", 3, base_row_id=2, default_row_commit_version=1)
    tracked = track_rows(staged(old), table(), mark(9), 7)
    assert ids(tracked) == [(2, 1)]
    assert tracked.domains == ()


def test_new_ids_begin_behind_those_that_come_back_to_a_table_without_its_mark() -> None:
    old = add("a", 3, base_row_id=5, default_row_commit_version=1)
    older = add("b", 5, base_row_id=0, default_row_commit_version=1)
    tracked = track_rows(staged(add("c", 2), old, older), table(), {}, 7)
    assert ids(tracked) == [(8, 7), (5, 1), (0, 1)]
    assert tracked.domains == tuple(mark(9).values())


def test_another_attempt_starts_from_what_was_staged() -> None:
    # B9-08: nothing of one attempt is left in the next.
    mine = staged(add("a", 3))
    assert ids(track_rows(mine, table(), mark(9), 7)) == [(10, 7)]
    assert ids(track_rows(mine, table(), mark(20), 8)) == [(21, 8)]


def test_nothing_changes_where_rows_are_not_tracked() -> None:
    mine = staged(add("a"), tags={"t": "1"})
    assert track_rows(mine, table(Protocol(1, 2)), {}, 7) == mine


def test_no_ids_are_given_where_that_is_suspended() -> None:
    # B9-07
    old = add("a", 3, base_row_id=2, default_row_commit_version=1)
    tracked = track_rows(staged(old, add("b")), table(rowTrackingSuspended="true"), mark(9), 7)
    assert ids(tracked) == [(None, None), (None, None)]
    assert tracked.domains == ()


def test_a_commit_says_whether_ids_were_preserved_where_the_table_keeps_them() -> None:
    enabled = table(enableRowTracking="true")
    gone = removes_table([RemoveFile("b", 5)])

    def said(staged: StagedChanges, written_for: TableConfiguration = enabled) -> object:
        return attempt(staged, enabled, {}, 1, written_for=written_for).info.tags

    assert said(staged(add("a", 1))) == {PRESERVED: "true"}
    assert said(staged(add("a", 1), removes=gone, tags={"t": "1"})) == {PRESERVED: "true", "t": "1"}
    assert said(staged(add("a", 1), removes=gone), table()) == {PRESERVED: "false"}
    assert said(staged(add("a", 1)), table()) == {PRESERVED: "true"}
    by_hand = staged(add("a", 1), removes=gone, moves_rows_by_hand=True)
    assert said(by_hand) == {PRESERVED: "false"}
    assert attempt(by_hand, table(), {}, 1).info.tags == {}


def test_what_cannot_be_numbered_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="numRecords"):
        track_rows(staged(add("a")), table(), {}, 1)
    with pytest.raises(InvalidOptionError, match="do not set it"):
        track_rows(staged(domains=tuple(mark(5).values())), table(), {}, 1)
    for damaged in ("x", "{}", '{"rowIdHighWaterMark":"9"}', '{"rowIdHighWaterMark":true}'):
        with pytest.raises(InvalidTableError, match="high-water mark"):
            track_rows(staged(add("a", 1)), table(), {DOMAIN: DomainMetadata(DOMAIN, damaged)}, 1)


def test_a_remove_takes_over_the_ids_that_a_winner_gave_to_its_file() -> None:
    removes = removes_table([RemoveFile("a%20b", 5), RemoveFile("other", 5)])
    given = AddFile("a b", {}, 1, 0, base_row_id=40, default_row_commit_version=6)
    winner = commit_of(6, given)
    adopted = rebased(staged(removes=removes), [winner], ROOT).removes.to_pylist()
    assert [(r["base_row_id"], r["default_row_commit_version"]) for r in adopted] == [
        (40, 6),
        (None, None),
    ]
    untouched = staged(removes=removes)
    assert rebased(untouched, [commit_of(6)], ROOT) is untouched
