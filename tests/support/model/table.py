"""A table as it ought to be: plain rows by key, beside which a real table takes the same steps.

Values are kept by the column that they were given for, whatever it is called by now. Every row has
a key of its own in a column that no step changes, so that it can be told from all others.
"""

from __future__ import annotations

import math
import string
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.type_text import parse_type
from adelta.kernel.schema.types import StructField, StructType

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

__all__ = [
    "PENDING",
    "WHOLE",
    "WIDER",
    "Column",
    "Condition",
    "ModelTable",
    "Moment",
    "Refused",
    "any_column",
    "any_value",
    "plain",
    "quoted",
]

Row = dict[int, Any]
Named = dict[str, Any]

WIDER = {
    "tinyint": ("smallint", "int", "bigint", "double", "decimal(12,1)"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "bigint": ("decimal(20,0)",),
    "float": ("double",),
    "decimal(4,1)": ("decimal(9,3)",),
    "date": ("timestamp_ntz",),
}
WHOLE = ("smallint", "int", "bigint")
KINDS = (*WIDER, "string", "double", "boolean", "timestamp", "binary", "struct", "array<int>")
NAMES = ("a", "B", "c d", "e.f", "`", "g;h", "ü", "i/j%20")
PLAIN_NAMES = ("a", "B", "e.f", "`", "ü", "i/j%20")
TEXTS = ("x", "y z%", "ÿ" * 40, "a/b", "", None)
PENDING = object()
"""A value that the table draws: a number of an identity column."""


class Refused(Exception):
    """The step cannot be done to the table, which has to say so."""


@dataclass(frozen=True)
class Column:
    """A column. `generated` is the column that it is the double of, or the remainder by three."""

    uid: int
    name: str
    kind: str
    generated: tuple[str, int] | None = None
    default: int | None = None
    identity: bool = False
    nullable: bool = True

    @property
    def given(self) -> bool:
        """Whether rows bring values for it."""
        return self.generated is None and not self.identity

    @property
    def type(self) -> Any:
        """In Delta's types."""
        if self.kind == "struct":
            fields = (StructField("x", parse_type("int")), StructField("y", parse_type("string")))
            return StructType(fields)
        return parse_type(self.kind)

    @property
    def exact(self) -> pa.DataType:
        """In Arrow's type for its own."""
        return to_arrow_type(self.type)

    @property
    def arrow(self) -> pa.DataType:
        """In a type of data that is written to it."""
        match self.kind:
            case "struct":
                return pa.struct([("x", pa.int64()), ("y", pa.string())])
            case "array<int>":
                return pa.list_(pa.int64())
            case "double" | "float":
                return pa.float64()
            case "timestamp":
                return pa.timestamp("us", "UTC")
            case "timestamp_ntz":
                return pa.timestamp("us")
            case "date":
                return pa.date32()
            case "string" | "binary":
                return {"string": pa.string(), "binary": pa.binary()}[self.kind]
            case "boolean":
                return pa.bool_()
        return pa.int64()


def any_column(source: random.Random, uid: int, model: ModelTable) -> Column | None:
    """A new column under a name that is not taken."""
    taken = {name.lower() for name in model.names}
    names = NAMES if model.mapped else PLAIN_NAMES
    free = [name for name in names if name.lower() not in taken]
    return Column(uid, source.choice(free), source.choice(KINDS)) if free else None


def any_value(source: random.Random, column: Column) -> Any:
    """A value that a row may bring."""
    if column.nullable and source.random() < 0.2:
        return None
    match column.kind:
        case "struct":
            return {"x": source.randint(-9, 9), "y": source.choice(TEXTS)}
        case "array<int>":
            return [source.choice([None, 1, 2]) for _ in range(source.randint(0, 2))]
        case "string":
            return source.choice(TEXTS[:-1])
        case "double" | "float":
            return source.choice([0.5, -1.25, 3.0, -0.0, math.nan, math.inf])
        case "boolean":
            return source.random() < 0.5
        case "binary":
            return source.choice([b"", b"\x00\xff", b"x"])
        case "date":
            return date(2024, 2, 27) + timedelta(days=source.randint(0, 3))
        case "timestamp" | "timestamp_ntz":
            zone = UTC if column.kind == "timestamp" else None
            when = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=zone)
            return when + timedelta(microseconds=source.randint(-1500, 1500))
    return source.randint(-9, 90)


def plain(value: Any) -> Any:
    """A value in a form that is the same whatever type the column has by now."""
    match value:
        case bool() | str() | bytes() | None:
            return value
        case int() | float() | Decimal():
            number = float(value)
            return "NaN" if number != number else number + 0.0  # -0.0 is 0.0
        case datetime():
            return value.replace(tzinfo=None)
        case date():
            return datetime(value.year, value.month, value.day)
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list():
            return [plain(item) for item in value]
    return value


def quoted(name: str) -> str:
    """A column's name in SQL."""
    if set(name) <= {*string.ascii_letters}:
        return name
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Condition:
    """A condition on one column, as SQL and as Python; None is neither true nor false."""

    column: str
    operator: str
    value: Any = None

    def sql(self, of: str = "") -> str:
        """As text; `of` is put before the column's name."""
        name = of + quoted(self.column)
        match self.operator:
            case "IS NULL":
                return f"{name} IS NULL"
            case "%":
                return f"{name} % {self.value} = 0"
            case "small":
                return f"{name} IS NULL OR {name} < {self.value}"
        value = f"'{self.value}'" if isinstance(self.value, str) else self.value
        return f"{name} {self.operator} {value}"

    def holds(self, row: Mapping[str, Any]) -> bool | None:
        """Whether it is true of a row. Raises Refused where there is no such column."""
        if self.column not in row:
            raise Refused(f"there is no column {self.column!r}")
        value = row[self.column]
        match self.operator:
            case "IS NULL":
                return value is None
            case "small":
                return value is None or value < self.value
            case _ if value is None:
                return None
            case "%":
                return int(value) % int(self.value) == 0
            case "<":
                return bool(value < self.value)
            case ">=":
                return bool(value >= self.value)
        return bool(value == self.value)


@dataclass(frozen=True)
class Moment:
    """What is remembered of a version, and when the next one came."""

    table: ModelTable
    ids: Mapping[int, tuple[int, int]] | None
    followed_ms: int | None = None


@dataclass
class ModelTable:
    """The table as it should be: its columns, and the values of its rows by key and column."""

    columns: list[Column]
    rows: dict[int, Row] = field(default_factory=dict)
    partition_by: tuple[int, ...] = ()
    cluster_by: tuple[int, ...] = ()
    constraints: dict[str, Condition] = field(default_factory=dict)
    past: dict[int, Moment] = field(default_factory=dict)
    mapped: bool = False
    features: tuple[str, ...] = ()

    def copy(self) -> ModelTable:
        """One that does not change with this one."""
        made = copy(self)
        made.columns, made.rows = list(self.columns), dict(self.rows)
        made.constraints, made.past = dict(self.constraints), dict(self.past)
        return made

    # -------------------------------------------------------------------------------------- looks

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """The column of that name. Raises Refused."""
        for column in self.columns:
            if column.name == name:
                return column
        raise Refused(f"there is no column {name!r}")

    def of_uid(self, uid: int) -> Column:
        return next(column for column in self.columns if column.uid == uid)

    @property
    def key(self) -> Column:
        return self.of_uid(0)

    def named(self, row: Row) -> Named:
        """A row's values under the names that columns have now."""
        return {column.name: row.get(column.uid) for column in self.columns}

    def matching(self, condition: Condition | None) -> list[int]:
        """The keys of the rows of which it is true."""
        if condition is None:
            return list(self.rows)
        self.column(condition.column)
        return [key for key, row in self.rows.items() if condition.holds(self.named(row)) is True]

    def needed(self, uid: int) -> bool:
        """Whether a rule, a generated column or the layout depends on a column."""
        name = self.of_uid(uid).name
        return (
            any(column.generated and column.generated[1] == uid for column in self.columns)
            or any(rule.column == name for rule in self.constraints.values())
            or uid in self.partition_by
            or uid in self.cluster_by
        )

    def partition(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(uid) for uid in self.partition_by)

    def data(
        self, rows: Iterable[Named], columns: Iterable[str], *, exact: bool = False
    ) -> pa.Table:
        """Rows as they are given to a write, of these columns; `exact` is in the table's types."""
        chosen = [self.column(name) for name in columns]
        schema = pa.schema([(c.name, c.exact if exact else c.arrow) for c in chosen])
        return pa.Table.from_pylist(list(rows), schema)

    # ------------------------------------------------------------------------------------- changes

    def store(self, given: Named, before: Row | None = None) -> int:
        """Put a row with these values, or change the row `before`; its key. Raises Refused."""
        row: Row = dict(before or {})
        for name, value in given.items():
            row[self.column(name).uid] = value
        for column in self.columns:
            if column.uid not in row and before is None:
                row[column.uid] = PENDING if column.identity else column.default
            if column.uid in self.partition_by and row.get(column.uid) == "":
                row[column.uid] = None
        for column in self.columns:
            if column.generated is not None:
                how, uid = column.generated
                value = row.get(uid)
                made = None if value is None else value * 2 if how == "double" else value % 3
                row[column.uid] = made
        named = self.named(row)
        for column in self.columns:
            if not column.nullable and row.get(column.uid) is None:
                raise Refused(f"{column.name} is null")
        for name, rule in self.constraints.items():
            if rule.holds(named) is not True:
                raise Refused(f"{name} does not hold")
        key: int = row[0]
        self.rows[key] = row
        return key

    def alter(self, column: Column, **changes: Any) -> None:
        """Change a column in its place."""
        at = self.columns.index(column)
        self.columns[at] = replace(column, **changes)

    # ------------------------------------------------------------------------------------ contents

    def difference(self, found: Mapping[int, Named]) -> str | None:
        """How rows that were read differ from these, None where they do not.

        Numbers that the table has drawn are taken over.
        """
        if found.keys() != self.rows.keys():
            more, fewer = found.keys() - self.rows.keys(), self.rows.keys() - found.keys()
            return f"keys too many: {sorted(more)}; missing: {sorted(fewer)}"
        for key, row in self.rows.items():
            for column in self.columns:
                theirs = found[key][column.name]
                if row.get(column.uid) is PENDING:
                    if theirs is None:
                        return f"row {key} has no number in {column.name}"
                    self.rows[key] = row = {**row, column.uid: theirs}
                elif plain(row.get(column.uid)) != plain(theirs):
                    ours = row.get(column.uid)
                    return f"row {key}: {column.name} is {theirs!r}, and not {ours!r}"
        return None
