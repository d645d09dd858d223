from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddFile, RemoveFile
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.commit import decode_commit
from adelta.kernel.file_id import FileIds
from adelta.kernel.schema.json import data_type_from_json, schema_to_string
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.conflict_checker import (
    Rebase,
    rebase,
)
from adelta.kernel.transaction.isolation import IsolationLevel
from adelta.kernel.transaction.metadata_change import metadata_may_change, protocol_may_change
from adelta.kernel.transaction.read_set import ReadSet
from adelta.kernel.transaction.removal import removes_table
from tests.support.commits import commit_of

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit

ROOT = "memory://lake/t"
PROTOCOL = Protocol(1, 2)


def partitioned_by(data_type: str) -> Metadata:
    schema = StructType((StructField("p", data_type_from_json(data_type)), StructField("v", LONG)))
    return Metadata("id", schema_to_string(schema), ("p",))


METADATA = partitioned_by("string")
SERIALIZABLE = IsolationLevel.SERIALIZABLE
APPEND = ReadSet()
ALL_READ = ReadSet(whole_table=True)


def add(path: str, *, partition: str | None = None, data_change: bool = True) -> AddFile:
    return AddFile(path, {"p": partition}, 10, 0, data_change)


def adds(*files: AddFile) -> tuple[AddFile, ...]:
    return files


def removes(*paths: str, data_change: bool = True) -> tuple[RemoveFile, ...]:
    return tuple(RemoveFile(path, 5, data_change) for path in paths)


def ids(*paths: str) -> FileIds:
    return FileIds.of(removes(*paths), ROOT)


def removed(*paths: str, data_change: bool = True) -> pa.Table:
    return removes_table(removes(*paths, data_change=data_change))


def staged(**changes: object) -> StagedChanges:
    return StagedChanges("mine", **{"adds": (add("new"),), **changes})  # type: ignore[arg-type]


def state(metadata: Metadata, *names: str) -> TableConfiguration:
    return TableConfiguration(Protocol(2, 7, None, names), metadata)


WRITE = CommitInfo(operation="WRITE", txn_id="theirs", is_blind_append=False)


def winner(
    version: int = 5,
    info: CommitInfo | None = WRITE,
    *,
    protocol: Protocol | None = None,
    metadata: Metadata | None = None,
    set_transactions: tuple[SetTransaction, ...] = (),
    domains: tuple[DomainMetadata, ...] = (),
    adds: tuple[AddFile, ...] = (),
    removes: tuple[RemoveFile, ...] = (),
) -> Commit:
    singletons = (each for each in (info, protocol, metadata) if each is not None)
    return commit_of(version, *singletons, *set_transactions, *domains, *removes, *adds)


def judge(
    mine: StagedChanges,
    read: ReadSet,
    *winners: Commit,
    level: IsolationLevel = SERIALIZABLE,
    metadata: Metadata = METADATA,
) -> Rebase:
    return rebase(mine, read, winners, protocol=PROTOCOL, metadata=metadata, level=level, root=ROOT)


def test_a_blind_append_goes_after_whatever_other_writers_did_to_files() -> None:
    judged = judge(
        staged(),
        APPEND,
        winner(5, adds=adds(add("a"))),
        winner(6, removes=removes("a", "b")),
        winner(7, adds=adds(add("c", data_change=False)), removes=removes("d", data_change=False)),
    )
    assert judged == Rebase(7, PROTOCOL, METADATA, staged())


def test_a_transaction_that_read_everything_conflicts_with_any_added_file() -> None:
    with pytest.raises(ConcurrentAppendError, match=r"version 5 \(WRITE\).*'a'") as caught:
        judge(staged(), ALL_READ, winner(adds=adds(add("a"))))
    assert caught.value.winning_version == 5
    assert caught.value.winning_operation == "WRITE"
    assert caught.value.retryable


def test_a_transaction_that_read_everything_conflicts_with_any_removed_file() -> None:
    with pytest.raises(ConcurrentDeleteReadError, match="'a' and 1 more files"):
        judge(staged(), ALL_READ, winner(removes=removes("a", "b")))


def test_a_removed_file_that_was_read_is_a_conflict_and_another_is_not() -> None:
    read = ReadSet(files=ids("part=a b/x"))
    judge(staged(), read, winner(removes=removes("part=c/x")))
    with pytest.raises(ConcurrentDeleteReadError, match="which was read"):
        judge(staged(), read, winner(removes=removes("part=a%20b/x")))


@pytest.mark.parametrize("level", list(IsolationLevel))
@pytest.mark.parametrize("mine_changes", [True, False])
@pytest.mark.parametrize("theirs_changes", [True, False])
def test_removing_the_same_file_twice_is_a_conflict_at_every_level(
    level: IsolationLevel, mine_changes: bool, theirs_changes: bool
) -> None:
    mine = staged(removes=removed("a%20b", data_change=mine_changes))
    theirs = winner(removes=removes("a b", data_change=theirs_changes))
    with pytest.raises(ConcurrentDeleteDeleteError):
        judge(mine, APPEND, theirs, level=level)


def test_write_serializable_overlooks_blind_appends_alone() -> None:
    level = IsolationLevel.WRITE_SERIALIZABLE
    blind = CommitInfo(is_blind_append=True)
    judge(staged(), ALL_READ, winner(adds=adds(add("a")), info=blind), level=level)
    for info in (None, CommitInfo(), CommitInfo(is_blind_append=False)):
        with pytest.raises(ConcurrentAppendError):
            judge(staged(), ALL_READ, winner(adds=adds(add("a")), info=info), level=level)


def test_write_serializable_sees_blind_appends_when_the_metadata_changes() -> None:
    mine = staged(metadata=replace(METADATA, name="new"))
    blind = winner(adds=adds(add("a")), info=CommitInfo(is_blind_append=True))
    with pytest.raises(ConcurrentAppendError):
        judge(mine, ALL_READ, blind, level=IsolationLevel.WRITE_SERIALIZABLE)


def test_snapshot_isolation_overlooks_added_files() -> None:
    judge(staged(), ALL_READ, winner(adds=adds(add("a"))), level=IsolationLevel.SNAPSHOT)


@dataclass(frozen=True)
class InPartition:
    value: str

    @property
    def text(self) -> str:
        return f"p = '{self.value}'"

    def may_match(self, files: pa.Table) -> pa.Array:
        found = [dict(values)["p"] for values in files.column("partition_values").to_pylist()]
        return pa.array([value == self.value for value in found])


def test_only_files_that_a_read_predicate_may_match_conflict() -> None:
    read = ReadSet(predicates=(InPartition("x"),))
    judge(staged(), read, winner(adds=adds(add("a", partition="y"))))
    with pytest.raises(ConcurrentAppendError, match="'b', which may hold rows where p = 'x'"):
        judge(staged(), read, winner(adds=adds(add("a", partition="y"), add("b", partition="x"))))


def test_a_transaction_that_finds_itself_among_the_winners_has_won() -> None:
    itself = winner(6, info=CommitInfo(txn_id="mine"), removes=removes("a"))
    mine = staged(removes=removed("a"))
    judged = judge(mine, ALL_READ, winner(5, adds=adds(add("b"))), itself)
    assert judged.own_version == 6


def test_a_batch_that_a_winner_has_recorded_is_applied_and_conflicts_with_nothing() -> None:
    mine = staged(set_transactions=(SetTransaction("app", 7),), removes=removed("a"))
    theirs = winner(set_transactions=(SetTransaction("app", 7),), removes=removes("a"))
    assert judge(mine, ALL_READ, theirs).applied_at == 5


def test_a_later_batch_of_the_same_application_applies_this_one_too() -> None:
    mine = staged(set_transactions=(SetTransaction("app", 7),))
    assert judge(mine, APPEND, winner(set_transactions=(SetTransaction("app", 9),))).applied_at == 5


def test_an_earlier_batch_of_the_same_application_is_a_conflict() -> None:
    mine = staged(set_transactions=(SetTransaction("app", 7),))
    with pytest.raises(ConcurrentTransactionError, match="'app' to version 6"):
        judge(mine, APPEND, winner(set_transactions=(SetTransaction("app", 6),)))


def test_another_application_is_no_conflict() -> None:
    mine = staged(set_transactions=(SetTransaction("app", 7),))
    judged = judge(mine, APPEND, winner(set_transactions=(SetTransaction("other", 7),)))
    assert judged.applied_at is None


def test_a_domain_that_both_write_is_a_conflict() -> None:
    mine = staged(domains=(DomainMetadata("d", "1"),))
    judge(mine, APPEND, winner(domains=(DomainMetadata("e", "1"),)))
    with pytest.raises(ConcurrentTransactionError, match="'d'"):
        judge(mine, APPEND, winner(domains=(DomainMetadata("d", "2"),)))


def test_a_domain_that_was_read_is_a_conflict() -> None:
    with pytest.raises(ConcurrentTransactionError):
        judge(
            staged(), ReadSet(domains=frozenset({"d"})), winner(domains=(DomainMetadata("d", ""),))
        )


def test_a_changed_protocol_is_a_conflict_and_the_same_one_again_is_not() -> None:
    judge(staged(), APPEND, winner(protocol=PROTOCOL))
    with pytest.raises(ProtocolChangedError):
        judge(staged(), APPEND, winner(protocol=Protocol(1, 4)))
    with pytest.raises(ProtocolChangedError):
        judge(staged(protocol=Protocol(1, 4)), APPEND, winner(protocol=PROTOCOL))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "sales"},
        {"description": "of a year"},
        {"configuration": {"delta.checkpointInterval": "5"}},
        {"configuration": {"DELTA.logRetentionDuration": "interval 1 day"}},
        {"configuration": {"owner": "me"}},
    ],
)
def test_metadata_that_say_nothing_about_files_are_adopted(change: dict[str, object]) -> None:
    changed = replace(METADATA, **change)  # type: ignore[arg-type]
    assert judge(staged(), APPEND, winner(metadata=changed)).metadata == changed


@pytest.mark.parametrize(
    "change",
    [
        {"schema_string": '{"type":"struct","fields":[{"name":"x"}]}'},
        {"partition_columns": ("x",)},
        {"configuration": {"delta.appendOnly": "true"}},
        {"configuration": {"delta.constraints.positive": "x > 0"}},
        {"configuration": {"delta.something.of.tomorrow": "1"}},
        {"id": "another table"},
    ],
)
def test_metadata_that_files_depend_on_are_a_conflict(change: dict[str, object]) -> None:
    with pytest.raises(MetadataChangedError):
        judge(staged(), APPEND, winner(metadata=replace(METADATA, **change)))  # type: ignore[arg-type]


def test_two_changes_of_metadata_are_a_conflict() -> None:
    mine = staged(metadata=replace(METADATA, name="mine"))
    with pytest.raises(MetadataChangedError):
        judge(mine, APPEND, winner(metadata=replace(METADATA, name="theirs")))


def test_changes_add_up_over_several_winners() -> None:
    first = replace(METADATA, name="first")
    second = replace(first, configuration={"delta.checkpointInterval": "3"})
    judged = judge(staged(), APPEND, winner(5, metadata=first), winner(6, metadata=second))
    assert judged.metadata == second
    assert judged.read_version == 6


MARKED = """{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":
{"delta.identity.start":1,"delta.identity.step":1,"delta.identity.highWaterMark":%d}}]}"""
MAPPED = """{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":
{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"%s"}}]}"""
PLAIN = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'


def change(
    names: str, before: Metadata, after: Metadata, mine: StagedChanges | None = None
) -> Rebase:
    """Judge a change of metadata in a table that supports some features."""
    readers = tuple(n for n in names.split() if n in ("columnMapping", "deletionVectors"))
    return rebase(
        mine or staged(),
        APPEND,
        [winner(metadata=after)],
        protocol=Protocol(3, 7, readers, tuple(sorted(names.split()))),
        metadata=before,
        level=SERIALIZABLE,
        root=ROOT,
    )


def test_identity_marks_of_others_are_adopted_by_who_gives_out_none() -> None:
    before, after = (replace(METADATA, schema_string=MARKED % mark) for mark in (3, 9))
    marks = "identityColumns"
    assert metadata_may_change(state(before, marks), state(after, marks))
    assert not metadata_may_change(state(before), state(after))
    mine = staged(metadata=before)
    with pytest.raises(MetadataChangedError):
        change("inCommitTimestamp", before, after)
    with pytest.raises(MetadataChangedError):
        change("identityColumns", before, after, mine)


@pytest.mark.parametrize(
    ("names", "properties"),
    [
        ("inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}),
        (
            "inCommitTimestamp",
            {
                "delta.enableInCommitTimestamps": "true",
                "delta.inCommitTimestampEnablementVersion": "5",
                "delta.inCommitTimestampEnablementTimestamp": "1000",
            },
        ),
    ],
)
def test_features_that_are_switched_on_without_harm_are_adopted(
    names: str, properties: dict[str, str]
) -> None:
    """C3-05: not without their support, and not when they are switched off again."""
    after = replace(METADATA, configuration=properties)
    assert change(names, METADATA, after).metadata == after
    with pytest.raises(MetadataChangedError):
        change("domainMetadata", METADATA, after)
    with pytest.raises(MetadataChangedError):
        change(names, after, METADATA)


def test_column_mapping_is_adopted_where_files_keep_their_names() -> None:
    before = replace(METADATA, schema_string=PLAIN)
    by_name = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    same = replace(METADATA, schema_string=MAPPED % "n", configuration=by_name)
    assert metadata_may_change(state(before, "columnMapping"), state(same, "columnMapping"))
    other = replace(same, schema_string=MAPPED % "col-1")
    assert not metadata_may_change(state(before, "columnMapping"), state(other, "columnMapping"))
    assert not metadata_may_change(state(same, "columnMapping"), state(before, "columnMapping"))


def test_features_that_bind_no_commit_of_before_may_be_added() -> None:
    before = Protocol(1, 7, None, ("appendOnly",))
    for name in ("changeDataFeed", "domainMetadata", "rowTracking", "vacuumProtocolCheck"):
        assert protocol_may_change(before, Protocol(1, 7, None, ("appendOnly", name)))
    for name in ("invariants", "checkConstraints", "generatedColumns", "identityColumns", "x"):
        assert not protocol_may_change(before, Protocol(1, 7, None, ("appendOnly", name)))
    assert not protocol_may_change(before, Protocol(1, 7, None, ()))


def test_rearranged_files_conflict_with_who_removes_them_and_not_with_who_read_them() -> None:
    moved = winner(
        adds=adds(add("c", data_change=False)), removes=removes("a", "b", data_change=False)
    )
    judge(staged(), ALL_READ, moved)
    judge(staged(), ReadSet(files=ids("a")), moved)
    mine = staged(removes=removed("b"))
    with pytest.raises(ConcurrentDeleteDeleteError) as caught:
        judge(mine, ALL_READ, moved)
    assert caught.value.path == "b"


def moves(version: int, before: str, after: str, partition: str = "x") -> Commit:
    """A winner that rearranges one file into another."""
    gone = RemoveFile(before, 5, False, partition_values={"p": partition})
    return winner(
        version, adds=adds(add(after, partition=partition, data_change=False)), removes=(gone,)
    )


def test_what_was_read_stays_read_in_the_files_that_others_moved_it_to() -> None:
    read = ReadSet(files=ids("a"))
    moved = moves(5, "a", "c"), moves(6, "c", "d")
    compacted = judge(staged(), read, *moved)
    assert compacted.read.files == ids("a", "c", "d")
    gone = winner(7, removes=removes("d"))
    with pytest.raises(ConcurrentDeleteReadError, match=r"version 7 .*'d', which was read"):
        judge(staged(), read, *moved, gone)
    with pytest.raises(ConcurrentDeleteReadError):
        judge(staged(), compacted.read, gone)


def test_files_of_other_partitions_and_new_rows_do_not_become_read_by_a_compaction() -> None:
    mine = add("c", partition="x", data_change=False)
    other = add("n", partition="y", data_change=False)
    fresh = add("m", partition="x")
    gone = tuple(
        RemoveFile(path, 5, False, partition_values={"p": p})
        for path, p in (("a", "x"), ("b", "y"))
    )
    mixed = winner(5, adds=(mine, other, fresh), removes=gone)
    judged = judge(staged(), ReadSet(files=ids("a")), mixed)
    assert judged.read.files == ids("a", "c")


@pytest.mark.parametrize(("before", "after"), [("1.0", "1"), ("2026-01-01 00:00:00", "other")])
def test_partitions_that_a_compaction_spells_anew_are_not_told_apart(
    before: str, after: str
) -> None:
    """Writers have several texts for one value, of which only the table's types know."""
    gone = RemoveFile("a", 5, False, partition_values={"p": before})
    moved = winner(5, adds=(add("c", partition=after, data_change=False),), removes=(gone,))
    assert judge(staged(), ReadSet(files=ids("a")), moved).read.files == ids("a", "c")


def test_partitions_of_several_spellings_are_told_by_their_values() -> None:
    """Both spellings are among what the compaction removes, and only one in its new file."""
    texts = ("2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z")
    gone = tuple(
        RemoveFile(path, 5, False, partition_values={"p": text})
        for path, text in zip("ab", texts, strict=True)
    )
    moved = winner(5, adds=(add("c", partition=texts[1], data_change=False),), removes=gone)
    metadata = partitioned_by("timestamp")
    read = judge(staged(), ReadSet(files=ids("a")), moved, metadata=metadata).read
    assert read.files == ids("a", "c")


def test_a_purge_of_files_without_rows_leaves_nothing_to_read() -> None:
    gone = RemoveFile("a", 5, False, partition_values={"p": "x"})
    judged = judge(staged(), ReadSet(files=ids("a")), winner(5, removes=(gone,)))
    assert judged.read.files == ids("a")


def test_an_action_that_does_not_say_whether_it_changes_data_does() -> None:
    silent = b'{"remove":{"path":"a","deletionTimestamp":1}}'
    with pytest.raises(ConcurrentDeleteReadError, match="which was read"):
        judge(staged(), ReadSet(files=ids("a")), decode_commit(5, silent))
    added = b'{"add":{"path":"b","partitionValues":{},"size":1,"modificationTime":1}}'
    with pytest.raises(ConcurrentAppendError):
        judge(staged(), ALL_READ, decode_commit(5, added))


def test_the_name_of_an_operation_hides_no_rows_that_it_adds() -> None:
    info = CommitInfo(operation="ROW TRACKING BACKFILL", txn_id="theirs")
    with pytest.raises(ConcurrentAppendError):
        judge(staged(), ALL_READ, winner(5, info=info, adds=adds(add("a"))))


def test_a_compaction_that_does_not_say_its_partitions_may_have_moved_rows_anywhere() -> None:
    into = (add(name, partition=name, data_change=False) for name in ("c", "d"))
    bare = winner(5, adds=tuple(into), removes=removes("a", data_change=False))
    assert judge(staged(), ReadSet(files=ids("a")), bare).read.files == ids("a", "c", "d")


@pytest.mark.parametrize("mine_path", ["p=x/a b", "p=x/a%20b", f"{ROOT}/p=x/a%20b"])
@pytest.mark.parametrize("their_path", ["p=x/a%20b", f"{ROOT}/p=x/a%20b", f"{ROOT}/p=x/a b"])
def test_files_meet_however_the_log_spells_their_paths(mine_path: str, their_path: str) -> None:
    gone = winner(removes=removes(their_path))
    with pytest.raises(ConcurrentDeleteReadError, match="which was read"):
        judge(staged(), ReadSet(files=ids(mine_path)), gone)
    with pytest.raises(ConcurrentDeleteReadError, match="which this one adds"):
        judge(staged(existing=ids(mine_path)), APPEND, gone)
    with pytest.raises(ConcurrentDeleteDeleteError):
        judge(staged(removes=removed(mine_path)), APPEND, gone)


def test_a_file_that_was_placed_by_hand_does_not_come_back_after_its_removal() -> None:
    mine = staged(existing=ids("a b"))
    judge(mine, APPEND, winner(removes=removes("c")))
    with pytest.raises(ConcurrentDeleteReadError, match="which this one adds"):
        judge(mine, APPEND, winner(removes=removes("a%20b")))


def test_a_conflict_says_which_file_and_partition_it_is_about() -> None:
    with pytest.raises(ConcurrentAppendError) as caught:
        judge(staged(), ALL_READ, winner(adds=adds(add("a", partition="x"))))
    assert (caught.value.path, caught.value.partition) == ("a", {"p": "x"})


def test_the_order_of_checks_is_delta_sparks() -> None:
    """A winner that breaks every rule is reported for the first one; then the next is looked at."""
    mine = staged(
        metadata=METADATA,
        domains=(DomainMetadata("d", ""),),
        set_transactions=(SetTransaction("app", 7),),
        removes=removed("a"),
    )
    content: dict[str, Any] = {
        "protocol": Protocol(1, 4),
        "metadata": replace(METADATA, partition_columns=("x",)),
        "domains": (DomainMetadata("d", ""),),
        "set_transactions": (SetTransaction("app", 6),),
        "adds": adds(add("n")),
        "removes": removes("a"),
    }
    raised: list[type[CommitConflictError]] = []
    for name in list(content):
        with pytest.raises(CommitConflictError) as caught:
            judge(mine, ALL_READ, winner(**content))
        raised.append(type(caught.value))
        del content[name]
    assert raised == [
        ProtocolChangedError,
        MetadataChangedError,
        ConcurrentTransactionError,
        ConcurrentTransactionError,
        ConcurrentAppendError,
        ConcurrentDeleteReadError,
    ]


def test_two_commits_cannot_both_add_one_file_again() -> None:
    mine = staged(adds=(add("a%20b", data_change=False),), existing=ids("a b"))
    theirs = winner(5, adds=adds(add("a b", data_change=False)))
    with pytest.raises(ConcurrentAppendError, match="which this one adds too"):
        judge(mine, APPEND, theirs)


def test_files_that_a_backfill_adds_again_are_no_new_rows() -> None:
    info = CommitInfo(operation="ROW TRACKING BACKFILL", txn_id="theirs")
    theirs = winner(5, info=info, adds=adds(add("a", data_change=False)))
    assert judge(staged(), ALL_READ, theirs).read_version == 5


# What fits any table: an entry of the log that says how far an application has got, and no more.
NOTE = StagedChanges("mine", set_transactions=(SetTransaction("app", 7),))


def test_who_follows_its_base_or_nothing_conflicts_with_any_commit() -> None:
    with pytest.raises(CommitConflictError, match="was to follow the version"):
        judge(NOTE, APPEND.with_whole_log(), winner())
    assert judge(NOTE, APPEND, winner()).own_version is None


def test_what_fits_any_table_goes_behind_any_change_of_it() -> None:
    other = replace(METADATA, schema_string=PLAIN, partition_columns=())
    assert judge(NOTE, APPEND, winner(metadata=other)).metadata == other
    constrained = Protocol(1, 3)
    assert judge(NOTE, APPEND, winner(protocol=constrained)).protocol == constrained
    for change in ({"metadata": other}, {"protocol": constrained}):
        with pytest.raises((MetadataChangedError, ProtocolChangedError)):
            judge(staged(), APPEND, winner(**change))  # type: ignore[arg-type]


def test_nothing_is_committed_to_a_table_that_has_come_to_need_what_adelta_lacks() -> None:
    unknown = Protocol(1, 7, None, ("appendOnly", "invariants", "unheardOf"))
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        judge(NOTE, APPEND, winner(protocol=unknown))


def test_who_decides_on_commits_does_not_change_under_any_commit() -> None:
    managed = Protocol(3, 7, ("catalogManaged",), ("catalogManaged", "inCommitTimestamp"))
    with pytest.raises(ProtocolChangedError, match="who decides on the table's commits"):
        judge(NOTE, APPEND, winner(protocol=managed))


def test_domains_that_were_read_are_known_as_read_one_by_one_and_all_at_once() -> None:
    assert not APPEND.has_domains
    assert APPEND.with_domain("mine").has_domains
    assert APPEND.with_all_domains().has_domains
    theirs = winner(domains=(DomainMetadata("other", "x"),))
    with pytest.raises(ConcurrentTransactionError, match="'other'"):
        judge(staged(), APPEND.with_all_domains(), theirs)
    judge(staged(), APPEND.with_domain("mine"), theirs)


def test_a_remove_that_does_not_name_its_partition_may_be_of_any() -> None:
    gone = (RemoveFile("a", 5, False), RemoveFile("b", 5, False, partition_values={"p": "y"}))
    moved = winner(5, adds=(add("c", partition="y", data_change=False),), removes=gone)
    assert judge(staged(), ReadSet(files=ids("a")), moved).read.files == ids("a", "c")
