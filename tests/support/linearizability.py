"""Is a history linearizable? Every version, and every read, against a serial replay of the log.

What is checked of a history of one table:

* the rows and the property of every version are those of the operations of the log up to it,
  applied one after the other to a model;
* every operation that was acknowledged is in the log at the version that its writer was told, one
  that was refused is not there, none is there twice, and none that nobody has begun;
* what readers read meanwhile is what the version they name ought to be;
* who began after another had ended sees it: a later version for a write, no earlier one for a read.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from adelta.errors import MissingCommitError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import decode_path
from adelta.log.commit_reader import read_commit
from adelta.log.load import load_state
from tests.support.workload import NOTE, Model, Operation, Row, digest, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.commit import Commit
    from adelta.log.state import LogState
    from adelta.table import Table

__all__ = ["History", "violations"]

_SCANNED = 25  # one version in so many is read cold, through a snapshot of its own


@dataclass(frozen=True)
class History:
    """What the processes said of their operations and their reads."""

    said: Sequence[Mapping[str, Any]]

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
class _Rows:
    """The rows of a version's live files, each file read once, by Arrow alone."""

    table: Table
    files: dict[str, list[Row]] = field(default_factory=dict)

    async def of(self, state: LogState) -> list[Row]:
        live = list((await state.files()).rows())
        if any(file.deletion_vector is not None for file in live):
            snapshot = await self.table.snapshot(version=state.version)
            return rows_of(await snapshot.scan().to_arrow())
        for file in live:
            if file.path not in self.files:
                data = await self.table.store.get(decode_path(file.path))
                found = pq.read_table(io.BytesIO(data)).to_pylist()
                p = str(file.partition_values["p"])
                self.files[file.path] = [(p, row["id"], row["value"]) for row in found]
        return [row for file in live for row in self.files[file.path]]


async def violations(table: Table, history: History) -> list[str]:
    """Every way in which the history is not that of one table changed step by step."""
    found: list[str] = []
    try:
        await _compare(table, history, found)
    except (MissingCommitError, ObjectNotFoundError) as error:
        found.append(f"what the log names is not there: {error}")
    return found


async def _compare(table: Table, history: History, found: list[str]) -> None:
    state = await load_state(table.store, version=0)
    last = (await table.snapshot()).version
    model, rows = Model(), _Rows(table)
    logged: dict[str, int] = {}
    stamped = 0
    expected = {0: digest([], None)}
    for version in range(1, last + 1):
        commit = await read_commit(table.store, version)
        operation = _meant(commit)
        if operation.name in logged:
            first = logged[operation.name]
            found.append(f"{operation} was committed twice, as {first} and as {version}")
        if operation.name:
            logged[operation.name] = version
        model.apply(operation)
        expected[version] = digest(model.contents(), model.note)
        state = state.advance([commit])
        note = state.metadata.configuration.get(NOTE)
        if {field.name for field in state.configuration.schema.fields} != {*model.columns}:
            found.append(f"version {version} has other columns than {operation} leaves")
        asked = state.metadata.configuration.items() >= model.asked.items()
        if not asked:
            found.append(f"version {version} has other properties than {operation} leaves")
        stamp = commit.info.in_commit_timestamp
        if state.configuration.in_commit_timestamps_enabled and (stamp is None or stamp <= stamped):
            found.append(f"version {version} has the in-commit timestamp {stamp}, after {stamped}")
        stamped = stamp or stamped
        if digest(await rows.of(state), note) != expected[version]:
            found.append(f"version {version} is not what {operation} makes of the one before")
        elif version % _SCANNED == 0 or version == last:
            snapshot = await table.snapshot(version=version)
            scanned = rows_of(await snapshot.scan().to_arrow())
            if digest(scanned, snapshot.properties.get(NOTE)) != expected[version]:
                found.append(f"a scan of version {version} reads something else")
    found += _outcomes(history, logged)
    for read in history.reads:
        if expected.get(read["version"]) != read["read"]:
            found.append(f"somebody read version {read['version']} as it never was")
    found += _order(history)


def _meant(commit: Commit) -> Operation:
    """What a commit was to do; one of whoever cleans up was to change nothing."""
    said = commit.info.user_metadata
    if said is None:
        return Operation("", f"{commit.info.operation}")
    return Operation(**json.loads(said))


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
        [(each["ended"], 0, each) for each in history.said if _committed(each)]
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
            found.append(f"{each} began when version {after} had been acknowledged")
    return found


def _has_version(each: Mapping[str, Any]) -> bool:
    return each.get("version") is not None


def _committed(each: Mapping[str, Any]) -> bool:
    return each.get("outcome") == "committed"
