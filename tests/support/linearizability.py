"""Is a history linearizable? Every version, and every read, against a serial replay of the log.

What is checked of a history of one table:

* the rows and the property of every version are those of the operations of the log up to it,
  applied one after the other to a model, and the last one knows all transactions of applications;
* every operation that was acknowledged is in the log at the version that its writer was told, one
  that was refused is not there, none is there twice, and none that nobody has begun;
* one that found nothing to do would change nothing in some version that it may have seen;
* no version supports fewer features than an earlier one, and files are as the features ask that the
  table had before their commit;
* change files tell of the rows that their commit changes, of each once, and of no others;
* where rows are tracked each has an id of its own, which it keeps when it is changed or moved;
* what readers read meanwhile is what the version they name ought to be;
* who reads and sets the metadata of a domain has read what the one before has set;
* with in-commit timestamps it is known since when there are any;
* who began after another had ended, a write or a read, sees it: a later version for a write, no
  earlier one for a read.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from adelta.errors import MissingCommitError, ObjectNotFoundError
from adelta.kernel.commit import decode_commit
from adelta.kernel.log_path import commit_path
from adelta.kernel.table_features import (
    DELETION_VECTORS,
    MANAGED_COMMIT,
    MATERIALIZE_PARTITION_COLUMNS,
    ROW_TRACKING,
    supported_names,
)
from adelta.kernel.transaction.read_set import changing
from adelta.log.load import load_state
from tests.support.live_rows import LiveRows, Row, digest_of
from tests.support.row_ids import RowIds
from tests.support.told_changes import net_change
from tests.support.version_facts import Facts, FactsSoFar
from tests.support.workload import (
    DOMAIN,
    FEATURES,
    NOTE,
    SUPPORTED,
    TOGETHER,
    Model,
    Operation,
    digest,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.commit import Commit
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState
    from adelta.table import Table

__all__ = ["Checked", "History", "checked", "read_digest", "violations"]

_IDS_IN = "delta.rowTracking.materializedRowIdColumnName"
_OF_ROWS = ("DELETE", "MERGE", "UPDATE")
_OF_TABLE = ("column", "feature", "support", "restore")
_SCANNED = 25  # one version in so many is read cold, through a snapshot of its own


@dataclass(frozen=True)
class History:
    """What the processes said of their operations and their reads.

    With `aged` any of them may have begun from an older version than others had been told of.
    """

    said: Sequence[Mapping[str, Any]]
    aged: bool = False

    @property
    def operations(self) -> list[Mapping[str, Any]]:
        return [each for each in self.said if "operation" in each]

    @property
    def begun(self) -> set[str]:
        """The names of operations that were begun, where that is said."""
        return {each["begins"] for each in self.said if "begins" in each}

    @property
    def reads(self) -> list[Mapping[str, Any]]:
        return [each for each in self.said if "read" in each]


@dataclass
class Checked:
    """What was found to be wrong, and what the log says by itself: for checks that go on.

    `digests` are those of each version's rows, `notes` what each commit says of itself, `spans` the
    files with the first and last version that need them, `facts` what each version says beside its
    rows, `changed` how often each row has come or gone with those whose change feed is on, and
    `times_ms` when each was made.
    """

    found: list[str] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    notes: dict[int, str | None] = field(default_factory=dict)
    spans: list[tuple[str, int, int]] = field(default_factory=list)
    facts: dict[int, Facts] = field(default_factory=dict)
    changed: dict[int, Mapping[Row, int]] = field(default_factory=dict)
    times_ms: list[int] = field(default_factory=list)


async def violations(table: Table, history: History) -> list[str]:
    """Every way in which the history is not that of one table changed step by step."""
    return (await checked(table, history)).found


async def checked(table: Table, history: History, *, scans: bool = True) -> Checked:
    """As `violations`, with what was learnt of the log.

    Without `scans` it reads no version cold: the caller does.
    """
    made = Checked()
    try:
        await _compare(table, history, made, scans=scans)
    except (MissingCommitError, ObjectNotFoundError) as error:
        made.found.append(f"what the log names is not there: {error}")
    return made


async def _compare(table: Table, history: History, made: Checked, *, scans: bool) -> None:
    state = await load_state(table.store, version=0)
    newest = await table.snapshot()
    last = newest.version
    model, live, found = Model(), LiveRows(table.store), made.found
    logged: dict[str, int] = {}
    stamped = 0
    if state.metadata.configuration.get("delta.enableRowTracking") == "true":
        live.ids, live.ids_in = RowIds(), state.metadata.configuration[_IDS_IN]
    made.digests[0] = model.digest()
    said = FactsSoFar()
    data, meta = await table.store.get_with_meta(commit_path(0))
    said.tell(decode_commit(0, data, meta.last_modified_ms), state)
    made.facts[0] = said.facts((), state)
    idle = _Idle(history, last)
    idle.see(0, model, state.configuration)
    for version in range(1, last + 1):
        data, meta = await table.store.get_with_meta(commit_path(version))
        commit = decode_commit(version, data, meta.last_modified_ms)
        made.notes[version] = commit.info.user_metadata
        operation, *others = _meant(commit)
        for each in (operation, *others):
            if each.name in logged:
                first = logged[each.name]
                found.append(f"{each} was committed twice, as {first} and as {version}")
            if each.name:
                logged[each.name] = version
        before = model.rows
        model.apply(operation, *others)
        made.digests[version] = model.digest()
        found += _not_asked_for(commit, state.configuration)
        asked, state = state.configuration, state.advance([commit])
        if state.configuration.change_data_feed_enabled:
            made.changed[version] = net_change(before, model.rows)
        gone = {*supported_names(asked.protocol)} - {*supported_names(state.protocol)}
        if gone - {MANAGED_COMMIT.name}:  # which a table has that is with an owner, for so long
            found.append(f"version {version} does not support {sorted(gone)} any more")
        if commit.metadata is not None or operation.kind in _OF_TABLE:
            found += _of_metadata(state, model, operation)
        if operation.kind in ("domain", "restore"):
            found += await _of_domain(state, model)
        stamp = commit.info.in_commit_timestamp
        if state.configuration.in_commit_timestamps_enabled and (stamp is None or stamp <= stamped):
            found.append(f"version {version} has the in-commit timestamp {stamp}, after {stamped}")
        stamped = stamp or stamped
        await live.apply(version, data)
        found += _not_as_supported(version, live, asked)
        if live.ids is not None:
            found += live.ids.wrong(version, (operation, *others))
        idle.see(version, model, state.configuration)
        told = await live.told(data)
        if told is not None and told != _changed(before, model.rows):
            found.append(f"version {version} tells of other changes than those of {operation}")
        note = state.metadata.configuration.get(NOTE)
        said.tell(commit, state)
        made.facts[version] = said.facts(live.actions.values(), state)
        if digest_of(live.total, note) != model.digest():
            found.append(f"version {version} is not what {operation} makes of the one before")
        elif version % _SCANNED == 0 or version == last:
            if live.paths != await _paths(state):
                found.append(f"version {version} has other files as its commits are replayed")
            if not scans:
                continue
            state = await load_state(table.store, version=version)
            if live.paths != await _paths(state):
                found.append(f"version {version} has other files when it is read cold")
            if await read_digest(table, version) != model.digest():
                found.append(f"a scan of version {version} reads something else")
    for name, number in model.marked.items():
        if await newest.application_version(name) != number:
            found.append(f"version {last} does not know the transaction {number} of {name}")
    live.end(last)
    made.spans, made.times_ms = live.spans, said.times_ms()
    found += _outcomes(history, logged) + idle.found() + said.wrong
    for read in history.reads:
        if made.digests.get(read["version"]) != read["read"]:
            found.append(f"somebody read version {read['version']} as it never was")
    if not history.aged:
        found += _order(history)


def _not_asked_for(commit: Commit, asked: TableConfiguration) -> list[str]:
    """What a change of rows does otherwise than the table, as it then was, asks."""
    if commit.info.operation not in _OF_ROWS:
        return []
    found, adds = [], changing(commit.adds)
    vectors = adds.column("deletion_vector")
    if not asked.uses(DELETION_VECTORS) and vectors.null_count < len(vectors):
        found.append(f"version {commit.version} has deletion vectors, which are switched off")
    gone = {*changing(commit.removes).column("path").to_pylist()}
    written = {*adds.column("path").to_pylist()} - gone  # of others a vector tells what is deleted
    if asked.change_data_feed_enabled and gone and written and not commit.cdc.num_rows:
        found.append(f"version {commit.version} does not tell which rows of its files it changes")
    return found


def _not_as_supported(version: int, live: LiveRows, asked: TableConfiguration) -> list[str]:
    """What the files of a commit are not, and the table's features before it ask of them."""
    found = []
    if live.bare and asked.supports(MATERIALIZE_PARTITION_COLUMNS):
        found.append(f"version {version} has files without the partition column: {live.bare}")
    if live.unnumbered and asked.supports(ROW_TRACKING):
        found.append(f"version {version} has files without ids of rows: {live.unnumbered}")
    if live.misdated:
        found.append(f"version {version} says that rows came with another one: {live.misdated}")
    return found


class _Idle:
    """Operations that found nothing to do, and whether it was so in a version they may have seen.

    That is one from the newest that somebody had been told of when they began, up to the last one
    before those of whoever began when they had ended.
    """

    def __init__(self, history: History, last: int) -> None:
        waiting = [each for each in history.operations if "meant" in each]
        self._waiting = [
            (each, Operation(**json.loads(each["meant"])), *_seen_by(each, history, last))
            for each in waiting
        ]

    def see(self, version: int, model: Model, table: TableConfiguration) -> None:
        """Leave out those that find nothing to do in this version."""
        self._waiting = [
            (each, meant, first, end)
            for each, meant, first, end in self._waiting
            if not (first <= version <= end and _finds_nothing(meant, first, model, table))
        ]

    def found(self) -> list[str]:
        """What is said of those that are left."""
        return [
            f"{each} was to find nothing to do, and there was something from {first} to {end}"
            for each, _, first, end in self._waiting
        ]


def _seen_by(each: Mapping[str, Any], history: History, last: int) -> tuple[int, int]:
    told = [it for it in history.said if _has_version(it)]
    before = [] if history.aged else [it for it in told if it["ended"] <= each["begun"]]
    first = max((it["version"] for it in before), default=0)
    writes = [it["version"] for it in told if _committed(it) and it["begun"] >= each["ended"]]
    return first, min(writes, default=last + 1) - 1


def _finds_nothing(meant: Operation, first: int, model: Model, table: TableConfiguration) -> bool:
    match meant.kind:
        case "feature":
            return table.metadata.configuration.items() >= FEATURES[meant.rest].items()
        case "support":
            return SUPPORTED[meant.p][meant.rest] in supported_names(table.protocol)
        case "import":  # its number is that of a version that it has seen
            return model.is_idle(replace(meant, ids=[first, *meant.ids]))
        case "restore":
            return True  # which version it was for, nobody has said
        case _:
            return model.is_idle(meant)


def _changed(
    before: Mapping[str, Mapping[int, int]], after: Mapping[str, Mapping[int, int]]
) -> Counter[tuple[str, Row]]:
    """What a change data feed tells of two versions, the one after the other."""
    found: Counter[tuple[str, Row]] = Counter()
    for p in before.keys() | after.keys():
        was, now = before.get(p, {}), after.get(p, {})
        for i, v in was.items() - now.items():
            found["update_preimage" if i in now else "delete", (p, i, v)] += 1
        for i, v in now.items() - was.items():
            found["update_postimage" if i in was else "insert", (p, i, v)] += 1
    return found


async def read_digest(table: Table, version: int) -> str:
    """What stands for the rows of a version, as a scan reads them."""
    snapshot = await table.snapshot(version=version)
    return digest(rows_of(await snapshot.scan().to_arrow()), snapshot.properties.get(NOTE))


def _of_metadata(state: LogState, model: Model, operation: Operation) -> list[str]:
    """What of the columns and properties is not what the operation leaves."""
    found = []
    if {field.name for field in state.configuration.schema.fields} != {*model.columns}:
        found.append(f"version {state.version} has other columns than {operation} leaves")
    if not state.metadata.configuration.items() >= model.asked.items():
        found.append(f"version {state.version} has other properties than {operation} leaves")
    if not model.supported <= {*supported_names(state.protocol)}:
        found.append(f"version {state.version} does not support what {operation} leaves")
    return found


async def _of_domain(state: LogState, model: Model) -> list[str]:
    """What the domain says that is not how often it was set."""
    known = (await state.domain_metadata()).get(DOMAIN)
    says = int(known.configuration) if known else 0
    if says == model.counted:
        return []
    return [f"version {state.version} counts {says} times what was done {model.counted} times"]


async def _paths(state: LogState) -> list[str]:
    return sorted((await state.files()).table["path"].to_pylist())


def _meant(commit: Commit) -> list[Operation]:
    """What a commit was to do; one of whoever cleans up was to change nothing."""
    said = commit.info.user_metadata
    if said is None:
        return [Operation("", f"{commit.info.operation}")]
    texts = [txn.app_id for txn in commit.set_transactions] if said == TOGETHER else [said]
    return [Operation(**json.loads(text)) for text in texts]


def _outcomes(history: History, logged: Mapping[str, int]) -> list[str]:
    found = []
    for each in history.operations:
        at = logged.get(each["operation"])
        match each["outcome"]:
            case "committed" if at != each["version"]:
                found.append(f"{each} is not in the log at its version, but at {at}")
            case "refused" | "failed" | "nothing" if at is not None:
                found.append(f"{each} is in the log as version {at}")
    if history.begun:
        found += [f"nobody has begun {name}" for name in set(logged) - history.begun]
    return found


def _order(history: History) -> list[str]:
    """Whoever ended is seen by whoever began afterwards."""
    events = sorted(
        [(each["ended"], 0, each) for each in history.said if _has_version(each)]
        + [(each["begun"], 1, each) for each in history.said if _has_version(each)],
        key=lambda event: event[:2],
    )
    found, newest = [], 0
    began_after: dict[int, int] = {}
    for _, kind, each in events:
        if kind == 0:
            newest = max(newest, each["version"])
        else:
            began_after[id(each)] = newest
    for each in history.said:
        after = began_after.get(id(each), -1)
        if _has_version(each) and each["version"] < after + _committed(each):
            found.append(f"{each} began when version {after} had been acknowledged, or read")
    return found


def _has_version(each: Mapping[str, Any]) -> bool:
    return each.get("version") is not None


def _committed(each: Mapping[str, Any]) -> bool:
    return each.get("outcome") == "committed"
