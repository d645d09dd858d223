"""Alterations of columns, any in any order, between appends: rows keep what they were given.

A table takes random appends, and columns that are added, renamed, dropped, moved and widened, at
the top and inside a struct, under names that have been used before. A model in Python keeps every
value by the column that it was given for, whatever that is called. After every step a fresh reader
sees the model's rows, also under a condition that statistics decide on; in the end every version
reads as it did.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync
from adelta.kernel.schema.type_text import parse_type
from adelta.kernel.schema.types import StructField, StructType
from tests.support.depth import cases

if TYPE_CHECKING:
    from pathlib import Path

MODE = "delta.columnMapping.mode"
WIDENING = {"delta.enableTypeWidening": "true"}
NAMES = ("a", "B", "c d", "e.f", "`", "g;h", "ü")
WIDER = {
    "tinyint": ("smallint", "int", "bigint", "double", "decimal(12,1)"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "bigint": ("decimal(20,0)",),
    "float": ("double",),
    "decimal(4,1)": ("decimal(9,3)",),
}
KINDS = (*WIDER, "string", "double")
SEEDS = int(os.environ.get("ADELTA_TEST_SEEDS", cases(6, 2)))
STEPS = 25


@dataclass
class Column:
    """A column of the model; `inner` are the fields of a struct."""

    uid: int
    name: str
    kind: str
    inner: list[Column] = field(default_factory=list)

    @property
    def type(self) -> Any:
        if self.kind == "struct":
            return StructType(tuple(StructField(c.name, c.type) for c in self.inner))
        return parse_type(self.kind)


@dataclass
class Model:
    """The table as it should be: its columns, and the values of its rows by `uid`."""

    source: random.Random
    columns: list[Column]
    rows: list[dict[int, Any]] = field(default_factory=list)
    uids: Any = field(default_factory=lambda: count(100))

    def siblings(self) -> tuple[list[Column], str | None]:
        """The columns of the table or of its struct, and the struct's name."""
        structs = [c for c in self.columns if c.kind == "struct"]
        if structs and self.source.random() < 0.4:
            return structs[0].inner, structs[0].name
        return self.columns, None

    def free_name(self, among: list[Column]) -> str | None:
        taken = {c.name.lower() for c in among}
        free = [name for name in NAMES if name.lower() not in taken]
        return self.source.choice(free) if free else None

    def value(self, column: Column) -> Any:
        if self.source.random() < 0.2:
            return None
        match column.kind:
            case "struct":
                return {c.uid: self.value(c) for c in column.inner}
            case "string":
                partition = column.uid == 0  # in which an empty text is null
                return self.source.choice(["x", "ÿ" * 40, "%" if partition else ""])
            case "double" | "float":
                return self.source.choice([0.5, -1.25, 3.0])
        return self.source.randrange(-100, 100)

    def expected(self) -> Counter[str]:
        return Counter(repr([given(row, c) for c in self.columns]) for row in self.rows)


def given(values: dict[int, Any], column: Column) -> Any:
    value = values.get(column.uid)
    if value is None or column.kind != "struct":
        return plain(value)
    return {c.name: given(value, c) for c in column.inner}


def plain(value: Any) -> Any:
    """Numbers of every kind alike."""
    return value if value is None or isinstance(value, str) else float(value)


def seen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: seen(item) for name, item in value.items()}
    return plain(value)


def quoted(*names: str | None) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in names if name is not None)


# ------------------------------------------------------------------------------------------- steps


def append(path: str, model: Model) -> None:
    rows = [{c.uid: model.value(c) for c in model.columns} for _ in range(3)]
    with adelta.sync.open_table(path) as table:
        schema = table.snapshot().schema
    named = [
        {f.name: given_raw(row, c) for f, c in zip(schema, model.columns, strict=True)}
        for row in rows
    ]
    loose = pa.schema([(c.name, arrow_type(c)) for c in model.columns])
    adelta.sync.write_table(path, pa.Table.from_pylist(named, loose))
    model.rows.extend(rows)


def given_raw(values: dict[int, Any], column: Column) -> Any:
    value = values.get(column.uid)
    if value is None or column.kind != "struct":
        return value
    return {c.name: given_raw(value, c) for c in column.inner}


def arrow_type(column: Column) -> pa.DataType:
    if column.kind == "struct":
        return pa.struct([(c.name, arrow_type(c)) for c in column.inner])
    if column.kind == "string":
        return pa.string()
    return pa.float64() if column.kind in ("double", "float") else pa.int64()


def add(path: str, model: Model) -> None:
    among, parent = model.siblings()
    name = model.free_name(among)
    if name is None:
        return
    column = Column(next(model.uids), name, model.source.choice(KINDS))
    place = model.source.randrange(len(among) + 1)
    where: dict[str, Any] = {"first": True} if place == 0 else {"after": among[place - 1].name}
    adelta.sync.add_columns(
        path,
        StructType((StructField(name, column.type),)),
        parent=None if parent is None else quoted(parent),
        **where,
    )
    among.insert(place, column)


def rename(path: str, model: Model) -> None:
    among, parent = model.siblings()
    column, name = model.source.choice(among), model.free_name(among)
    if name is not None:
        adelta.sync.rename_column(path, quoted(parent, column.name), name)
        column.name = name


def drop(path: str, model: Model) -> None:
    among, parent = model.siblings()
    column = model.source.choice(among)
    if len(among) > 2 and column.uid != 0:
        adelta.sync.drop_columns(path, [quoted(parent, column.name)])
        among.remove(column)


def move(path: str, model: Model) -> None:
    among, parent = model.siblings()
    column = model.source.choice(among)
    rest = [c for c in among if c is not column]
    place = model.source.randrange(len(rest) + 1)
    where: dict[str, Any] = {"first": True} if place == 0 else {"after": rest[place - 1].name}
    adelta.sync.change_column(path, quoted(parent, column.name), **where)
    among[:] = [*rest[:place], column, *rest[place:]]


def widen(path: str, model: Model) -> None:
    among, parent = model.siblings()
    narrow = [c for c in among if c.kind in WIDER]
    if narrow:
        column = model.source.choice(narrow)
        kind = model.source.choice(WIDER[column.kind])
        adelta.sync.change_column(path, quoted(parent, column.name), type=kind)
        column.kind = kind


def checkpoint(path: str, model: Model) -> None:
    with adelta.sync.open_table(path) as table:
        adelta.sync.checkpoint(table)


# ------------------------------------------------------------------------------------------- check


def check(path: str, model: Model, version: int | None = None) -> int:
    with adelta.sync.open_table(path) as table:
        snapshot = table.snapshot(version=version)
        found = snapshot.scan().to_arrow()
        assert found.column_names == [c.name for c in model.columns]
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        assert Counter(repr([seen(v) for v in row]) for row in rows) == model.expected()
        for column in model.columns:
            if column.kind in ("struct", "string"):
                continue
            bound = model.source.randrange(-100, 100)
            values = [row.get(column.uid) for row in model.rows]
            wanted = sum(value is not None and value > bound for value in values)
            where = f"{quoted(column.name)} > {bound}"
            assert snapshot.scan(where=where).count() == wanted, where
        return snapshot.version


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_keep_what_they_were_given_whatever_becomes_of_columns(
    tmp_path: Path, seed: int
) -> None:
    source = random.Random(seed)
    path, mode = str(tmp_path / "t"), ("name", "id", "none")[seed % 3]
    inner = [Column(4, "x", "tinyint"), Column(5, "y", "string"), Column(6, "z", "float")]
    columns = [
        Column(0, "p", "string"),
        Column(1, "a", "tinyint"),
        Column(2, "s", "struct", inner),
        Column(3, "n", "decimal(4,1)"),
    ]
    model = Model(source, columns)
    adelta.sync.create_table(
        path,
        StructType(tuple(StructField(c.name, c.type) for c in columns)),
        partition_by=["p"],
        properties={MODE: mode, **WIDENING},
    )
    append(path, model)
    if mode == "none":  # columns keep the names that they have in files
        adelta.sync.set_properties(path, {MODE: "name"})
    past: list[tuple[int, Model]] = []
    steps = [append, append, add, add, rename, rename, drop, move, widen, widen, checkpoint]
    for _ in range(STEPS):
        source.choice(steps)(path, model)
        past.append((check(path, model), deepcopy(model)))
    for version, then in source.sample(past, 8):
        check(path, then, version)
