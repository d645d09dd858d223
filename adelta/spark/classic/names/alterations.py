"""ALTER TABLE: the changes that Spark's parser has read, as operations, one commit a statement."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.kernel.schema.char_types import with_plain_texts
from adelta.kernel.schema.types import StructField
from adelta.operations.alter_columns import (
    AddedColumn,
    ChangedColumn,
    DroppedColumn,
    RenamedColumn,
    alter_columns,
    replace_columns,
)
from adelta.operations.change_column import ColumnChange
from adelta.operations.cluster_by import cluster_by
from adelta.operations.constraints import add_constraint, drop_constraint
from adelta.operations.set_properties import set_properties, unset_properties
from adelta.spark.classic.names.columns import defined_type
from adelta.spark.exceptions import known_as_of
from adelta.spark.translate.identifiers import quoted
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from adelta.commit.catalog import CatalogClient
    from adelta.table import Table
    from adelta.write.commit_options import CommitOptions

__all__ = ["alter"]

_Change = dict[str, Any]


async def alter(
    uri: str,
    changes: Sequence[_Change],
    zone: str,
    storage_options: Mapping[str, str],
    catalog: CatalogClient | None = None,
    *,
    commits: CommitOptions,
) -> None:
    """Change a table as `Definition.java` says, in order; changes of one kind are one commit.

    Constraints are judged by the clocks of `zone`. Commits are made as `commits` say.

    Raises:
        InvalidOptionError: a Delta table cannot be changed so.
        AdeltaError: as the operations do.
    """
    async with open_table(uri, storage_options, catalog=catalog) as opened:
        table = opened.committing(commits)
        for kind, group in groupby(changes, key=_kind):
            operation = _OPERATIONS.get(kind)
            if operation is None:
                raise InvalidOptionError(f"a Delta table cannot be changed so: {kind}")
            changed = list(group)
            with known_as_of(_ACTIONS[changed[0]["kind"]]):
                await operation(table, changed, zone)


def _kind(change: _Change) -> str:
    return "column" if "column" in change else str(change["kind"])


async def _alter_columns(table: Table, changes: list[_Change], _zone: str) -> None:
    kinds = [change["kind"] for change in changes]
    if set(kinds) == {"drop column", "add column"}:  # as Spark says REPLACE COLUMNS
        await replace_columns(
            table, [_added(change) for change in changes if change["kind"] == "add column"]
        )
        return
    await alter_columns(table, [_column_change(change) for change in changes])


def _column_change(
    change: _Change,
) -> AddedColumn | DroppedColumn | RenamedColumn | ChangedColumn:
    column = quoted(change["column"])
    match change["kind"]:
        case "add column":
            return _added(change)
        case "drop column":
            return DroppedColumn(column, if_exists=bool(change.get("if_exists")))
        case "rename column":
            return RenamedColumn(column, change["name"])
        case "change type":
            found = ColumnChange(type=defined_type(change["type"]))
        case "change nullability":
            found = ColumnChange(nullable=change["nullable"])
        case "change comment":
            found = ColumnChange(comment=change["comment"] or "")
        case "change default":
            found = ColumnChange(default=change["default"] or "")
        case "move column":
            found = ColumnChange(first=bool(change.get("first")), after=change.get("after"))
        case kind:
            raise InvalidOptionError(f"a column of a Delta table cannot be changed so: {kind}")
    return ChangedColumn(column, found)


def _added(change: _Change) -> AddedColumn:
    metadata = {"comment": change["comment"]} if change.get("comment") else {}
    field = StructField(
        change["column"][-1], defined_type(change["type"]), change["nullable"], metadata
    )
    return AddedColumn(
        with_plain_texts(field),
        quoted(change["column"][:-1]) or None,
        bool(change.get("first")),
        change.get("after"),
        change.get("default"),
    )


async def _set_properties(table: Table, changes: list[_Change], _zone: str) -> None:
    for change in changes:
        if change["name"] in ("location", "provider", "owner", "external"):
            raise InvalidOptionError(
                f"the {change['name']} of a Delta table cannot be set: create an entry for the "
                "table under another name instead"
            )
    await set_properties(table, {change["name"]: change["value"] for change in changes})


async def _unset_properties(table: Table, changes: list[_Change], _zone: str) -> None:
    # Spark has looked for those that are missing, where that was to be an error.
    await unset_properties(table, [change["name"] for change in changes], if_exists=True)


async def _add_constraints(table: Table, changes: list[_Change], zone: str) -> None:
    for change in changes:
        if "check" not in change:
            raise InvalidOptionError(
                f"a Delta table cannot keep {change['described']}: it keeps CHECK constraints"
            )
        await add_constraint(table, change["name"], change["check"], zone=zone)


async def _drop_constraints(table: Table, changes: list[_Change], _zone: str) -> None:
    for change in changes:
        await drop_constraint(table, change["name"], if_exists=change["if_exists"])


async def _cluster(table: Table, changes: list[_Change], _zone: str) -> None:
    await cluster_by(table, [quoted(path) for path in changes[-1]["columns"]])


_ACTIONS = {
    "add column": "change column",
    "add constraint": "add constraint",
    "change comment": "change column",
    "change default": "change column",
    "change nullability": "change column",
    "change type": "change column",
    "cluster by": "change column",
    "drop column": "drop column",
    "drop constraint": "drop constraint",
    "move column": "change column",
    "remove property": "unset properties",
    "rename column": "rename column",
    "set property": "set properties",
}
"""What changes do, as conditions of errors are told apart by."""

_OPERATIONS: dict[str, Callable[[Table, list[_Change], str], Awaitable[None]]] = {
    "column": _alter_columns,
    "set property": _set_properties,
    "remove property": _unset_properties,
    "add constraint": _add_constraints,
    "drop constraint": _drop_constraints,
    "cluster by": _cluster,
}
