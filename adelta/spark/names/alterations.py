"""ALTER TABLE: the changes that Spark's parser has read, as operations, one commit each."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.kernel.schema.char_types import with_plain_texts
from adelta.kernel.schema.json import data_type_from_json
from adelta.kernel.schema.types import StructField, StructType
from adelta.operations.add_columns import add_columns
from adelta.operations.change_column import change_column
from adelta.operations.cluster_by import cluster_by
from adelta.operations.constraints import add_constraint, drop_constraint
from adelta.operations.drop_columns import drop_columns
from adelta.operations.rename_column import rename_column
from adelta.operations.set_properties import set_properties, unset_properties
from adelta.spark.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["alter"]

_Change = dict[str, Any]


async def alter(uri: str, changes: Sequence[_Change]) -> None:
    """Change a table as `Definition.java` says, in order.

    Raises:
        InvalidOptionError: a Delta table cannot be changed so.
        AdeltaError: as the operations do.
    """
    for kind, group in groupby(changes, key=lambda change: change["kind"]):
        operation = _OPERATIONS.get(kind)
        if operation is None:
            raise InvalidOptionError(f"a Delta table cannot be changed so: {kind}")
        await operation(uri, list(group))


async def _add_columns(uri: str, changes: list[_Change]) -> None:
    def where(change: _Change) -> tuple[str | None, bool, str | None]:
        above = quoted(change["column"][:-1]) or None
        return above, bool(change.get("first")), change.get("after")

    for (parent, first, after), group in groupby(changes, key=where):
        new, defaults = list[StructField](), dict[str, str]()
        for change in group:
            name = change["column"][-1]
            metadata = {"comment": change["comment"]} if change.get("comment") else {}
            data_type = data_type_from_json(json.loads(change["type"]))
            field = StructField(name, data_type, change["nullable"], metadata)
            new.append(with_plain_texts(field))
            if change.get("default") is not None:
                defaults[quoted(change["column"])] = change["default"]
        await add_columns(uri, StructType(tuple(new)), parent=parent, first=first, after=after)
        for column, text in defaults.items():
            await change_column(uri, column, default=text)


async def _drop_columns(uri: str, changes: list[_Change]) -> None:
    names = [quoted(change["column"]) for change in changes]
    await drop_columns(uri, names, if_exists=all(change.get("if_exists") for change in changes))


async def _rename_columns(uri: str, changes: list[_Change]) -> None:
    for change in changes:
        await rename_column(uri, quoted(change["column"]), change["name"])


async def _change_columns(uri: str, changes: list[_Change]) -> None:
    for change in changes:
        column = quoted(change["column"])
        match change["kind"]:
            case "change type":
                data_type = data_type_from_json(json.loads(change["type"]))
                await change_column(uri, column, type=data_type)
            case "change nullability":
                await change_column(uri, column, nullable=change["nullable"])
            case "change comment":
                await change_column(uri, column, comment=change["comment"] or "")
            case "change default":
                await change_column(uri, column, default=change["default"] or "")
            case _:
                first, after = bool(change.get("first")), change.get("after")
                await change_column(uri, column, first=first, after=after)


async def _set_properties(uri: str, changes: list[_Change]) -> None:
    for change in changes:
        if change["name"] in ("location", "provider", "owner", "external"):
            raise InvalidOptionError(
                f"the {change['name']} of a Delta table cannot be set: create an entry for the "
                "table under another name instead"
            )
    await set_properties(uri, {change["name"]: change["value"] for change in changes})


async def _unset_properties(uri: str, changes: list[_Change]) -> None:
    # Spark has looked for those that are missing, where that was to be an error.
    await unset_properties(uri, [change["name"] for change in changes], if_exists=True)


async def _add_constraints(uri: str, changes: list[_Change]) -> None:
    for change in changes:
        if "check" not in change:
            raise InvalidOptionError(
                f"a Delta table cannot keep {change['described']}: it keeps CHECK constraints"
            )
        await add_constraint(uri, change["name"], change["check"])


async def _drop_constraints(uri: str, changes: list[_Change]) -> None:
    for change in changes:
        await drop_constraint(uri, change["name"], if_exists=change["if_exists"])


async def _cluster(uri: str, changes: list[_Change]) -> None:
    await cluster_by(uri, [quoted(path) for path in changes[-1]["columns"]])


_OPERATIONS: dict[str, Callable[[str, list[_Change]], Awaitable[None]]] = {
    "add column": _add_columns,
    "drop column": _drop_columns,
    "rename column": _rename_columns,
    "change type": _change_columns,
    "change nullability": _change_columns,
    "change comment": _change_columns,
    "change default": _change_columns,
    "move column": _change_columns,
    "set property": _set_properties,
    "remove property": _unset_properties,
    "add constraint": _add_constraints,
    "drop constraint": _drop_constraints,
    "cluster by": _cluster,
}
